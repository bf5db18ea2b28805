import { expect, test } from 'vitest';
import { graceMs, within } from '../../../src/shared/base/deadline.ts';
import { FakeClock } from '../../../src/testing/fake-clock.ts';

const never = () => new Promise<never>(() => {});
const quiet = new AbortController().signal;

test('a value in time is the outcome, and no timer stays behind', async () => {
  const clock = new FakeClock();
  expect(await within(1_000, async () => 7, clock, quiet)).toEqual({ kind: 'value', value: 7 });
  expect(clock.sleeping).toBe(0);
});

test('code that throws before its first await is reported as thrown', async () => {
  const error = new Error('at once');
  const work = () => {
    throw error;
  };
  expect(await within(1_000, work, new FakeClock(), quiet)).toEqual({ kind: 'threw', error });
});

test('code that ignores its signal is abandoned after the grace', async () => {
  const clock = new FakeClock();
  const outcome = within(1_000, never, clock, quiet);
  await clock.pass(1_000);
  await clock.pass(graceMs);
  expect(await outcome).toEqual({ kind: 'timeout' });
  expect(clock.sleeping).toBe(0);
});

test('the signal of the code is aborted at the deadline', async () => {
  const clock = new FakeClock();
  const seen = Promise.withResolvers<unknown>();
  const outcome = within(
    1_000,
    (signal) => {
      signal.addEventListener('abort', () => seen.resolve(signal.reason));
      return never();
    },
    clock,
    quiet,
  );
  await clock.pass(1_000);
  expect(await seen.promise).toMatchObject({ name: 'TimeoutError' });
  await clock.pass(graceMs);
  await outcome;
});

test('a value that comes within the grace still counts', async () => {
  const clock = new FakeClock();
  const answer = Promise.withResolvers<string>();
  const stop = new AbortController();
  const outcome = within(1_000, () => answer.promise, clock, stop.signal);
  stop.abort();
  await Promise.resolve();
  answer.resolve('done after all');
  expect(await outcome).toEqual({ kind: 'value', value: 'done after all' });
});

test('an error that answers the stop is the stop', async () => {
  const stop = new AbortController();
  const outcome = within(
    1_000,
    (signal) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
    new FakeClock(),
    stop.signal,
  );
  stop.abort(new Error('cancelled'));
  expect(await outcome).toEqual({ kind: 'aborted' });
});

test('nothing starts once the outer signal is aborted', async () => {
  let started = false;
  const outcome = await within(1_000, () => (started = true), new FakeClock(), AbortSignal.abort());
  expect(outcome).toEqual({ kind: 'aborted' });
  expect(started).toBe(false);
});
