import { expect, test } from 'vitest';
import { FakeClock } from '../../../src/testing/fake-clock.ts';
import { Watchdog } from '../../../src/worker/llm/watchdog.ts';

test('silence is noticed once, after the limit and not after signs of life', async () => {
  const clock = new FakeClock();
  const silences: number[] = [];
  const watchdog = new Watchdog(clock, (limitMs) => silences.push(limitMs));
  watchdog.expect(100);
  await clock.advance(90);
  watchdog.seen();
  await clock.advance(90);
  expect(silences).toEqual([]);
  await clock.advance(10);
  await clock.advance(1_000);
  expect(silences).toEqual([100]);
});

test('a new limit replaces the one before, and there is one timer at a time', async () => {
  const clock = new FakeClock();
  const silences: number[] = [];
  const watchdog = new Watchdog(clock, (limitMs) => silences.push(limitMs));
  watchdog.expect(100);
  watchdog.expect(20);
  expect(clock.sleeping).toBe(1);
  await clock.advance(20);
  expect(silences).toEqual([20]);
});

test('a stopped watchdog leaves no timer behind', async () => {
  const clock = new FakeClock();
  const watchdog = new Watchdog(clock, () => expect.unreachable());
  watchdog.expect(100);
  watchdog.stop();
  expect(clock.sleeping).toBe(0);
  await clock.advance(1_000);
});
