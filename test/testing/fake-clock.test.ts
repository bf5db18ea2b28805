import { expect, test } from 'vitest';
import { orLate } from '../../src/shared/base/deadline.ts';
import { FakeClock } from '../../src/testing/fake-clock.ts';

test('time stands still until the test moves it, and then wakes what is due in its order', async () => {
  const clock = new FakeClock({ startAt: '2026-02-03T04:05:06.000Z' });
  const woken: string[] = [];
  const one = clock.sleep(200).then(() => woken.push(`late at ${clock.elapsedMs}`));
  const other = clock.sleep(100).then(() => woken.push(`early at ${clock.elapsedMs}`));
  expect(new Date(clock.now()).toISOString()).toBe('2026-02-03T04:05:06.000Z');
  await clock.advance(199);
  expect(woken).toEqual(['early at 100']);
  await clock.advance(1);
  await Promise.all([one, other]);
  expect(woken).toEqual(['early at 100', 'late at 200']);
  expect(clock.waits).toEqual([200, 100]);
});

test('a wait that begins while time passes ends within it', async () => {
  const clock = new FakeClock();
  const ends: number[] = [];
  const work = (async () => {
    for (const ms of [250, 500, 1_000]) {
      await clock.sleep(ms);
      ends.push(clock.elapsedMs);
    }
  })();
  await clock.advance(10_000);
  await work;
  expect(ends).toEqual([250, 750, 1_750]);
  expect(clock.elapsedMs).toBe(10_000);
});

test('a jump wakes late what was due on the way', async () => {
  const clock = new FakeClock();
  const woken = clock.sleep(100).then(() => clock.elapsedMs);
  clock.jump(5_000);
  expect(await woken).toBe(5_000);
});

test('a sleep that is aborted leaves nothing behind, before and after it began', async () => {
  const clock = new FakeClock();
  const stop = new AbortController();
  const sleep = clock.sleep(100, stop.signal);
  expect(clock.sleeping).toBe(1);
  stop.abort('enough');
  await expect(sleep).rejects.toBe('enough');
  await expect(clock.sleep(100, stop.signal)).rejects.toBe('enough');
  expect(clock.sleeping).toBe(0);
});

test('a clock that skips waits passes limits on the way, but never goes on for a limit alone', async () => {
  const clock = new FakeClock({ skipWaits: true });
  const answer = Promise.withResolvers<string>();
  const inTime = orLate(30_000, answer.promise, () => 'late', { clock });
  await clock.sleep(1_000);
  expect(clock.elapsedMs).toBe(1_000);
  const tooSlow = orLate(
    5_000,
    clock.sleep(9_000).then(() => 'done'),
    () => `late at ${clock.elapsedMs}`,
    { clock },
  );
  expect(await tooSlow).toBe('late at 6000');
  answer.resolve('in time');
  expect(await inTime).toBe('in time');
  expect(clock.waits).toEqual([1_000, 9_000]);
});

test('a clock that skips waits lets work that is woken together go on together', async () => {
  const clock = new FakeClock({ skipWaits: true });
  const at = async (ms: number) => {
    await clock.sleep(ms);
    await clock.sleep(ms);
    return clock.elapsedMs;
  };
  expect(await Promise.all([at(100), at(30), at(70)])).toEqual([200, 60, 140]);
});

test('waiting for a sleep that never begins names the ones there are', async () => {
  const clock = new FakeClock();
  await expect(clock.pass(10)).rejects.toThrow('nothing sleeps for 10 ms: nothing sleeps at all');
  void clock.sleep(20);
  void clock.sleep(30, undefined, 'limit');
  await expect(clock.pass(10)).rejects.toThrow('nothing sleeps for 10 ms: there is a wait of 20 ms, a limit of 30 ms');
  await clock.pass(20);
  expect(clock.elapsedMs).toBe(20);
});

test('a start that is no date is refused', () => {
  expect(() => new FakeClock({ startAt: 'yesterday' })).toThrow('startAt yesterday is no date');
});
