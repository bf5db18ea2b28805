import { setImmediate as tick } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { Connection } from '../../../../src/worker/tools/mcp/connection.ts';
import { connectionPool } from '../../../../src/worker/tools/mcp/pool.ts';
import { FakeClock } from '../../../../src/testing/fake-clock.ts';

function poolOf(idleMs: number) {
  const clock = new FakeClock();
  const pool = connectionPool(idleMs, clock);
  const [made, closed]: [string[], string[]] = [[], []];
  const acquire = (key: string) =>
    pool.acquire(key, () => {
      const name = `${key}${made.length}`;
      made.push(name);
      return { close: async () => void closed.push(name) } as Connection;
    });
  return { clock, pool, acquire, made, closed };
}

test('a connection that is not used is closed when its time is up', async () => {
  const { clock, acquire, closed, pool } = poolOf(1_000);
  await acquire('a').release();
  clock.jump(999);
  await tick();
  expect(closed).toEqual([]);
  clock.jump(1);
  await tick();
  expect(closed).toEqual(['a0']);
  expect(pool.size).toBe(0);
});

test('a run that comes back in time finds it', async () => {
  const { clock, acquire, made, closed } = poolOf(1_000);
  await acquire('a').release();
  clock.jump(999);
  await tick();
  const again = acquire('a');
  clock.jump(10_000);
  await tick();
  expect([made, closed]).toEqual([['a0'], []]);
  await again.release();
  clock.jump(1_000);
  await tick();
  expect(closed).toEqual(['a0']);
});

test('letting go twice counts once', async () => {
  const { acquire, closed } = poolOf(0);
  const [one, two] = [acquire('a'), acquire('a')];
  await one.release();
  await one.release();
  expect(closed).toEqual([]);
  await two.release();
  expect(closed).toEqual(['a0']);
});

test('the end of the pool closes all, used or not, and leaves no timer', async () => {
  const { clock, acquire, closed, pool } = poolOf(1_000);
  const lease = acquire('a');
  await acquire('b').release();
  await pool[Symbol.asyncDispose]();
  expect(closed.sort()).toEqual(['a0', 'b1']);
  await lease.release();
  expect(clock.sleeping).toBe(0);
});
