import { expect, test } from 'vitest';
import { Watchdog } from '../../../src/worker/llm/watchdog.ts';

/** A clock that is moved by hand, and how many sleeps wait on it. */
function manualClock() {
  let nowMs = 0;
  const waiting = new Set<{ readonly atMs: number; readonly resolve: () => void }>();
  return {
    waiting,
    now: () => nowMs,
    monotonic: () => nowMs,
    sleep: (ms: number, signal?: AbortSignal) =>
      new Promise<void>((resolve, reject) => {
        const sleeper = { atMs: nowMs + ms, resolve };
        waiting.add(sleeper);
        signal?.addEventListener('abort', () => {
          waiting.delete(sleeper);
          reject(signal.reason);
        });
      }),
    async advance(ms: number) {
      nowMs += ms;
      for (const sleeper of waiting) {
        if (sleeper.atMs > nowMs) continue;
        waiting.delete(sleeper);
        sleeper.resolve();
      }
      await new Promise((resolve) => setImmediate(resolve));
    },
  };
}

test('silence is noticed once, after the limit and not after signs of life', async () => {
  const clock = manualClock();
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
  const clock = manualClock();
  const silences: number[] = [];
  const watchdog = new Watchdog(clock, (limitMs) => silences.push(limitMs));
  watchdog.expect(100);
  watchdog.expect(20);
  expect(clock.waiting.size).toBe(1);
  await clock.advance(20);
  expect(silences).toEqual([20]);
});

test('a stopped watchdog leaves no timer behind', async () => {
  const clock = manualClock();
  const watchdog = new Watchdog(clock, () => expect.unreachable());
  watchdog.expect(100);
  watchdog.stop();
  expect(clock.waiting.size).toBe(0);
  await clock.advance(1_000);
});
