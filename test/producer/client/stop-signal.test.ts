import { getEventListeners } from 'node:events';
import { expect, test } from 'vitest';
import { Stop, stoppable, untilStopped } from '../../../src/producer/client/stop-signal.ts';

const listeners = (signal: AbortSignal) => getEventListeners(signal, 'abort').length;

test('a stop aborts with the first of its signals and releases all of them when disposed', () => {
  const [a, b] = [new AbortController(), new AbortController()];
  {
    using stop = new Stop({ signals: [a.signal, undefined, b.signal] });
    expect(stop.signal.aborted).toBe(false);
    expect([listeners(a.signal), listeners(b.signal)]).toEqual([1, 1]);
    b.abort();
    expect(stop.signal.aborted).toBe(true);
  }
  expect([listeners(a.signal), listeners(b.signal)]).toEqual([0, 0]);
});

test('a stop aborts at once for a signal that has aborted, and after its time', async () => {
  using late = new Stop({ signals: [AbortSignal.abort()] });
  expect(late.signal.aborted).toBe(true);
  using timed = new Stop({ signals: [], afterMs: 1 });
  await new Promise<void>((resolve) => timed.signal.addEventListener('abort', () => resolve()));
  expect(timed.signal.aborted).toBe(true);
});

test('a time longer than timers allow does not stop at once', async () => {
  using stop = new Stop({ signals: [], afterMs: 2 ** 40 });
  await new Promise((resolve) => setTimeout(resolve, 5));
  expect(stop.signal.aborted).toBe(false);
});

test('an iteration is quiet about errors that the stop causes and throws all others', async () => {
  const aborted = new AbortController();
  const ends = stoppable<number>([aborted.signal], async function* (stop) {
    yield 1;
    aborted.abort();
    stop.throwIfAborted();
  });
  expect(await Array.fromAsync(ends)).toEqual([1]);
  const fails = stoppable<number>([], async function* () {
    yield 1;
    throw new Error('broken');
  });
  await expect(Array.fromAsync(fails)).rejects.toThrow('broken');
});

test('returning in the middle of a wait ends the wait and runs the cleanup', async () => {
  let cleaned = false;
  const iteration = stoppable<number>([], async function* (stop) {
    try {
      await untilStopped(new Promise<void>(() => {}), stop);
      yield* [];
    } finally {
      cleaned = true;
    }
  });
  const waiting = iteration.next();
  await iteration.return?.();
  expect(await waiting).toEqual({ done: true, value: undefined });
  expect(cleaned).toBe(true);
});

test('nothing runs, and no signal is kept, before the first step and after the last', async () => {
  const { signal } = new AbortController();
  const iteration = stoppable<number>([signal], async function* () {
    yield 1;
  });
  expect(listeners(signal)).toBe(0);
  await iteration.next();
  expect(listeners(signal)).toBe(1);
  await iteration.next();
  expect(listeners(signal)).toBe(0);
});
