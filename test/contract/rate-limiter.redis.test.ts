import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, inject, onTestFinished, test } from 'vitest';
import { systemClock } from '../../src/shared/base/clock.ts';
import { startScratchRedis } from '../../src/shared/base/dev-redis.ts';
import { connect, whenReady } from '../../src/shared/state/connect.ts';
import { keysFor } from '../../src/shared/state/keys.ts';
import type { Governor } from '../../src/shared/state/limits/rate/rate-limiter.ts';
import { redisGovernor } from '../../src/shared/state/limits/rate/limiters.ts';
import { startRedisProxy } from '../support/redis-proxy.ts';
import { testPrefix, until } from '../support/redis.ts';
import { aRequest, expectParked, governorContract, granted, oneAtATime, pumped, suspended } from './rate-limiter.ts';
import { redisGovernorWorld } from './rate-limiter-redis-world.ts';

governorContract('Redis', () => redisGovernorWorld());

const never = new AbortController().signal;
const limiter = 'key:model';

/** A governor whose connection the test can spoil. */
async function governorAt(url: string, keys = keysFor(testPrefix())): Promise<Governor & { lose(): void }> {
  const redis = connect(url, 'work', () => {});
  await whenReady(redis, 20_000);
  const governor = redisGovernor({ redis, keys, clock: systemClock });
  const lose = () => redis.disconnect();
  onTestFinished(async () => {
    lose();
    await governor[Symbol.asyncDispose]();
  });
  return Object.assign(governor, { lose });
}

/** Lets all leases in a sorted set of the limiter end now. */
async function lapse(world: Awaited<ReturnType<typeof redisGovernorWorld>>, part: 'seats' | 'leases'): Promise<void> {
  const key = world.keys.limiter(limiter, part);
  for (const member of await world.redis.zrange(key, 0, '-1')) await world.redis.zadd(key, 1, member);
}

describe('leases', () => {
  test('who waited in a process that is gone blocks nobody, and its run keeps its place', async () => {
    const world = await redisGovernorWorld();
    const governor = await world.governor();
    const lost = await governorAt(inject('redisUrl'), world.keys);
    const first = await granted(governor, aRequest('a', oneAtATime));
    lost.acquire(aRequest('b', oneAtATime), 60_000, never).catch(() => {});
    const line = world.keys.limiter(limiter, 'line');
    await until('the wait', async () => (await world.redis.zcard(line)) === 1);
    lost.lose();
    const later = granted(governor, aRequest('c', oneAtATime), 60_000);
    await until('the second wait', async () => (await world.redis.zcard(line)) === 2);
    await world.redis.zadd(world.keys.limiter(limiter, 'seats'), 1, 'b');
    await governor.settle(first, {});
    const next = granted(governor, aRequest('d', oneAtATime), 60_000);
    const second = await later;
    // Its run was taken over by another worker, and stands before the one that came later.
    const again = granted(governor, aRequest('b', oneAtATime), 60_000);
    await until('three in line', async () => (await world.redis.zcard(line)) === 2);
    await governor.settle(second, {});
    await governor.settle(await again, {});
    expect((await next).tokens).toBeGreaterThan(0);
  });

  test('a grant of a process that is gone frees its place in flight', async () => {
    const world = await redisGovernorWorld();
    const [one, two] = [await world.governor(), await world.governor()];
    const grant = await granted(one, aRequest('a', oneAtATime));
    await expectParked(two, aRequest('b', oneAtATime));
    await lapse(world, 'leases');
    await granted(two, aRequest('c', oneAtATime), 0);
    // Its settlement comes too late to change anything.
    await one.settle(grant, { usedTokens: 1_000_000, outputTokens: 1 });
    expect(await world.redis.zcard(world.keys.limiter(limiter, 'leases'))).toBe(1);
  });

  test('a promise that nobody takes up goes to the next, and the run stands first when it comes', async () => {
    const world = await redisGovernorWorld();
    const governor = await world.governor();
    const first = await granted(governor, aRequest('a', oneAtATime));
    for (const runId of ['b', 'c', 'd']) await suspended(governor, aRequest(runId, oneAtATime));
    await governor.settle(first, {});
    expect(await pumped(governor)).toEqual(['b']);
    await lapse(world, 'leases');
    // Its wake-up may be lost, so it gets another one; its turn is not held any longer.
    expect(await pumped(governor)).toEqual(['b', 'c']);
    await suspended(governor, aRequest('b', oneAtATime));
    await governor.settle(await granted(governor, aRequest('c', oneAtATime), 0), {});
    expect(await pumped(governor)).toEqual(['b']);
  });

  test('a promise that nobody takes up costs nothing', async () => {
    const world = await redisGovernorWorld();
    const governor = await world.governor();
    const limits = { requestsPerMinute: 2 };
    await governor.park(aRequest('b', limits));
    expect(await pumped(governor)).toEqual(['b']);
    await expectParked(governor, aRequest('c', limits), 10_000);
    await lapse(world, 'leases');
    expect((await granted(governor, aRequest('d', limits), 0)).tokens).toBe(200);
  });

  test('who waits is looked after', async () => {
    const world = await redisGovernorWorld();
    const governor = await world.governor();
    const first = await granted(governor, aRequest('a', oneAtATime));
    const waiting = granted(governor, aRequest('b', oneAtATime), 60_000);
    const seat = async () => Number(await world.redis.zscore(world.keys.limiter(limiter, 'seats'), 'b'));
    const endsAt = await until('the wait', seat);
    const renewedTo = await until('a renewal', async () => {
      const later = await seat();
      return later > endsAt && later;
    });
    // Before it ended, that is: a place that is kept for a lost process ends much later.
    expect(renewedTo).toBeLessThan(endsAt + 5_000);
    await governor.settle(first, {});
    expect((await waiting).tokens).toBeGreaterThan(0);
  });
});

test('a run that never comes is woken four times more, and forgotten', async () => {
  const world = await redisGovernorWorld();
  const governor = await world.governor();
  await governor.park(aRequest('b', oneAtATime));
  expect(await pumped(governor)).toEqual(['b']);
  await lapse(world, 'leases');
  for (let i = 0; i < 4; i++) {
    expect(await pumped(governor)).toEqual(['b']);
    await lapse(world, 'seats');
  }
  expect(await governor.pump()).toEqual([]);
  expect(await world.redis.exists(world.keys.limiter(limiter, 'waiters'))).toBe(0);
});

describe('Redis', () => {
  test('a limiter without a limit is not asked for every call', async () => {
    const governor = await governorAt(inject('redisUrl'));
    await granted(governor, aRequest('a', {}));
    governor.lose();
    const grant = await granted(governor, aRequest('b', {}), 0);
    await governor.settle(grant, { usedTokens: 10, outputTokens: 1, report: {} });
    expect(grant.waitedMs).toBe(0);
  });

  test('a grant whose reply is lost is given once', async () => {
    await using proxy = await startRedisProxy(inject('redisUrl'));
    const world = await redisGovernorWorld();
    const governor = await governorAt(proxy.url, world.keys);
    await governor.settle(await granted(governor, aRequest('a', oneAtATime)), {});
    const dropped = proxy.dropRepliesOnce();
    const grant = await granted(governor, aRequest('b', oneAtATime));
    await dropped;
    expect(await world.redis.zrange(world.keys.limiter(limiter, 'leases'), 0, '-1')).toEqual([grant.id]);
  });

  test('a Redis that does not answer is said to be away, and a grant that comes late is given back', async () => {
    await using proxy = await startRedisProxy(inject('redisUrl'));
    const world = await redisGovernorWorld();
    const governor = await governorAt(proxy.url, world.keys);
    await governor.settle(await granted(governor, aRequest('a', oneAtATime)), {});
    proxy.hold();
    const asked = governor.acquire(aRequest('b', oneAtATime), 100, never);
    await expect(asked).rejects.toMatchObject({ code: 'queue_unavailable' });
    proxy.release();
    const other = await world.governor();
    expect(await granted(other, aRequest('c', oneAtATime))).toMatchObject({ tenant: 'acme' });
  });

  test('a wait ends with queue_unavailable when Redis goes meanwhile', async () => {
    await using proxy = await startRedisProxy(inject('redisUrl'));
    const world = await redisGovernorWorld();
    const governor = await governorAt(proxy.url, world.keys);
    await granted(governor, aRequest('a', oneAtATime));
    const waiting = governor.acquire(aRequest('b', oneAtATime), 300, never);
    const line = world.keys.limiter(limiter, 'line');
    await until('the wait', async () => (await world.redis.zcard(line)) === 1);
    proxy.hold();
    await expect(waiting).rejects.toMatchObject({ code: 'queue_unavailable' });
    proxy.release();
  });

  test('a full memory refuses a call of the governor as a whole', async () => {
    const server = await startScratchRedis({
      dir: mkdtempSync(join(tmpdir(), 'millrace-governor-')),
      env: process.env,
      root: join(import.meta.dirname, '../..'),
    });
    onTestFinished(() => server.stop());
    const world = await redisGovernorWorld(server.url);
    const governor = await world.governor();
    const first = await granted(governor, aRequest('a', oneAtATime));
    await suspended(governor, aRequest('b', oneAtATime));
    const stored = async () => {
      const names = await world.redis.keys('*');
      return new Map(
        await Promise.all(names.toSorted().map(async (name) => [name, await world.redis.dump(name)] as const)),
      );
    };
    const before = await stored();
    await world.redis.config('SET', 'maxmemory', '1');
    const full = { code: 'queue_unavailable' };
    await expect(governor.acquire(aRequest('c', oneAtATime), 0, never)).rejects.toMatchObject(full);
    await expect(governor.park(aRequest('c', oneAtATime))).rejects.toMatchObject(full);
    await expect(governor.settle(first, {})).rejects.toMatchObject(full);
    await expect(governor.leave('b')).rejects.toMatchObject(full);
    await expect(governor.pump()).rejects.toMatchObject(full);
    expect(await stored()).toEqual(before);
    await world.redis.config('SET', 'maxmemory', '0');
    await governor.leave('b');
    await granted(governor, aRequest('d', { maxInFlight: 2 }), 0);
  });

  test('when all is settled and nobody waits, a limiter is a handful of keys', async () => {
    const world = await redisGovernorWorld();
    const governor = await world.governor();
    const limits = { requestsPerMinute: 60_000, tokensPerMinute: 60_000_000 };
    for (let i = 0; i < 20; i++) {
      const request = aRequest(`r${i}`, limits, { tenant: `t${i}` });
      await governor.settle(await granted(governor, request), { usedTokens: 150, outputTokens: 50 });
    }
    await governor.park(aRequest('left', limits));
    await governor.leave('left');
    expect(await governor.pump()).toEqual([]);
    const stored = await world.redis.keys(world.keys.limiter(limiter, '*').replaceAll(/[{}]/g, '?'));
    const parts = stored.map((key) => key.split(':').at(-1));
    expect(new Set(parts)).toEqual(new Set(['grants', 'past', 'state', 'window']));
    expect(await world.redis.hkeys(world.keys.limiter(limiter, 'grants'))).toEqual(['at']);
    expect(await world.redis.scard(world.keys.limiters)).toBe(0);
  });
});
