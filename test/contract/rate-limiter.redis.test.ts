import { describe, expect, inject, onTestFinished, test } from 'vitest';
import { systemClock } from '../../src/shared/base/clock.ts';
import { startScratchRedis } from '../support/scratch-redis.ts';
import { connect, whenReady } from '../../src/shared/state/connect.ts';
import { keysFor } from '../../src/shared/state/keys.ts';
import type { RateLimiter } from '../../src/shared/state/limits/rate/rate-limiter.ts';
import { redisRateLimiter } from '../../src/shared/state/limits/rate/polled-limiter.ts';
import { startRedisProxy } from '../support/redis-proxy.ts';
import { testPrefix, until } from '../support/redis.ts';
import {
  aRequest,
  expectParked,
  rateLimiterContract,
  granted,
  oneAtATime,
  dispatched,
  suspended,
} from './rate-limiter.ts';
import { redisRateLimiterWorld } from './rate-limiter-redis-world.ts';

rateLimiterContract('Redis', () => redisRateLimiterWorld());

const never = new AbortController().signal;
const limiter = 'key:model';

/** A rate limiter whose connection the test can spoil. */
async function rateLimiterAt(url: string, keys = keysFor(testPrefix())): Promise<RateLimiter & { lose(): void }> {
  const redis = connect(url, 'work', () => {});
  await whenReady(redis, 20_000);
  const rateLimiter = redisRateLimiter({ redis, keys, clock: systemClock });
  const lose = () => redis.disconnect();
  onTestFinished(async () => {
    lose();
    await rateLimiter[Symbol.asyncDispose]();
  });
  return Object.assign(rateLimiter, { lose });
}

/** Lets all leases in a sorted set of the limiter end now. */
async function lapse(
  world: Awaited<ReturnType<typeof redisRateLimiterWorld>>,
  part: 'seats' | 'leases',
): Promise<void> {
  const key = world.keys.limiter(limiter, part);
  for (const member of await world.redis.zrange(key, 0, '-1')) await world.redis.zadd(key, 1, member);
}

describe('leases', () => {
  test('a waiter of a process that is gone blocks no other, and its run keeps its position', async () => {
    const world = await redisRateLimiterWorld();
    const rateLimiter = await world.rateLimiter();
    const lost = await rateLimiterAt(inject('redisUrl'), world.keys);
    const first = await granted(rateLimiter, aRequest('a', oneAtATime));
    lost.acquire(aRequest('b', oneAtATime), 60_000, never).catch(() => {});
    const queue = world.keys.limiter(limiter, 'queue');
    await until('the wait', async () => (await world.redis.zcard(queue)) === 1);
    lost.lose();
    const later = granted(rateLimiter, aRequest('c', oneAtATime), 60_000);
    await until('the second wait', async () => (await world.redis.zcard(queue)) === 2);
    await world.redis.zadd(world.keys.limiter(limiter, 'seats'), 1, 'b');
    await rateLimiter.settle(first, {});
    const next = granted(rateLimiter, aRequest('d', oneAtATime), 60_000);
    const second = await later;
    // Another worker claimed its run, which is before the one that came later.
    const again = granted(rateLimiter, aRequest('b', oneAtATime), 60_000);
    await until('three waiters', async () => (await world.redis.zcard(queue)) === 2);
    await rateLimiter.settle(second, {});
    await rateLimiter.settle(await again, {});
    expect((await next).tokens).toBeGreaterThan(0);
  });

  test('a grant of a process that is gone frees its permit', async () => {
    const world = await redisRateLimiterWorld();
    const [one, two] = [await world.rateLimiter(), await world.rateLimiter()];
    const grant = await granted(one, aRequest('a', oneAtATime));
    await expectParked(two, aRequest('b', oneAtATime));
    await lapse(world, 'leases');
    await granted(two, aRequest('c', oneAtATime), 0);
    // Its settlement comes too late to change anything.
    await one.settle(grant, { usedTokens: 1_000_000, outputTokens: 1 });
    expect(await world.redis.zcard(world.keys.limiter(limiter, 'leases'))).toBe(1);
  });

  test('a promise that its run does not use goes to the next, and the run is first when it comes', async () => {
    const world = await redisRateLimiterWorld();
    const rateLimiter = await world.rateLimiter();
    const first = await granted(rateLimiter, aRequest('a', oneAtATime));
    for (const runId of ['b', 'c', 'd']) await suspended(rateLimiter, aRequest(runId, oneAtATime));
    await rateLimiter.settle(first, {});
    expect(await dispatched(rateLimiter)).toEqual(['b']);
    await lapse(world, 'leases');
    // Its wake-up may be lost, so it gets another one; its turn is not kept any longer.
    expect(await dispatched(rateLimiter)).toEqual(['b', 'c']);
    await suspended(rateLimiter, aRequest('b', oneAtATime));
    await rateLimiter.settle(await granted(rateLimiter, aRequest('c', oneAtATime), 0), {});
    expect(await dispatched(rateLimiter)).toEqual(['b']);
  });

  test('an unused promise costs nothing', async () => {
    const world = await redisRateLimiterWorld();
    const rateLimiter = await world.rateLimiter();
    const limits = { requestsPerMinute: 2 };
    await rateLimiter.park(aRequest('b', limits));
    expect(await dispatched(rateLimiter)).toEqual(['b']);
    await expectParked(rateLimiter, aRequest('c', limits), 10_000);
    await lapse(world, 'leases');
    expect((await granted(rateLimiter, aRequest('d', limits), 0)).tokens).toBe(200);
  });

  test('who waits is looked after', async () => {
    const world = await redisRateLimiterWorld();
    const rateLimiter = await world.rateLimiter();
    const first = await granted(rateLimiter, aRequest('a', oneAtATime));
    const waiting = granted(rateLimiter, aRequest('b', oneAtATime), 60_000);
    const seat = async () => Number(await world.redis.zscore(world.keys.limiter(limiter, 'seats'), 'b'));
    const endsAt = await until('the wait', seat);
    const renewedTo = await until('a renewal', async () => {
      const later = await seat();
      return later > endsAt && later;
    });
    // Before it ended, that is: a position that is kept for a lost process ends much later.
    expect(renewedTo).toBeLessThan(endsAt + 5_000);
    await rateLimiter.settle(first, {});
    expect((await waiting).tokens).toBeGreaterThan(0);
  });
});

test('a run that never comes is woken four times more, and forgotten', async () => {
  const world = await redisRateLimiterWorld();
  const rateLimiter = await world.rateLimiter();
  await rateLimiter.park(aRequest('b', oneAtATime));
  expect(await dispatched(rateLimiter)).toEqual(['b']);
  await lapse(world, 'leases');
  for (let i = 0; i < 4; i++) {
    expect(await dispatched(rateLimiter)).toEqual(['b']);
    await lapse(world, 'seats');
  }
  expect(await rateLimiter.dispatch()).toEqual([]);
  expect(await world.redis.exists(world.keys.limiter(limiter, 'waiters'))).toBe(0);
});

describe('Redis', () => {
  test('a limiter without a limit is not asked for every call', async () => {
    const rateLimiter = await rateLimiterAt(inject('redisUrl'));
    await granted(rateLimiter, aRequest('a', {}));
    rateLimiter.lose();
    const grant = await granted(rateLimiter, aRequest('b', {}), 0);
    await rateLimiter.settle(grant, { usedTokens: 10, outputTokens: 1, report: {} });
    expect(grant.waitedMs).toBe(0);
  });

  test('a grant whose reply is lost is given once', async () => {
    await using proxy = await startRedisProxy(inject('redisUrl'));
    const world = await redisRateLimiterWorld();
    const rateLimiter = await rateLimiterAt(proxy.url, world.keys);
    await rateLimiter.settle(await granted(rateLimiter, aRequest('a', oneAtATime)), {});
    const dropped = proxy.dropRepliesOnce();
    const grant = await granted(rateLimiter, aRequest('b', oneAtATime));
    await dropped;
    expect(await world.redis.zrange(world.keys.limiter(limiter, 'leases'), 0, '-1')).toEqual([grant.id]);
  });

  test('a Redis that does not answer is reported as away, and a grant that comes late is released', async () => {
    await using proxy = await startRedisProxy(inject('redisUrl'));
    const world = await redisRateLimiterWorld();
    const rateLimiter = await rateLimiterAt(proxy.url, world.keys);
    await rateLimiter.settle(await granted(rateLimiter, aRequest('a', oneAtATime)), {});
    proxy.hold();
    const asked = rateLimiter.acquire(aRequest('b', oneAtATime), 100, never);
    await expect(asked).rejects.toMatchObject({ code: 'queue_unavailable' });
    proxy.release();
    const other = await world.rateLimiter();
    expect(await granted(other, aRequest('c', oneAtATime))).toMatchObject({ tenant: 'acme' });
  });

  test('a wait ends with queue_unavailable when Redis goes meanwhile', async () => {
    await using proxy = await startRedisProxy(inject('redisUrl'));
    const world = await redisRateLimiterWorld();
    const rateLimiter = await rateLimiterAt(proxy.url, world.keys);
    await granted(rateLimiter, aRequest('a', oneAtATime));
    const waiting = rateLimiter.acquire(aRequest('b', oneAtATime), 300, never);
    const queue = world.keys.limiter(limiter, 'queue');
    await until('the wait', async () => (await world.redis.zcard(queue)) === 1);
    proxy.hold();
    await expect(waiting).rejects.toMatchObject({ code: 'queue_unavailable' });
    proxy.release();
  });

  test('a full memory refuses a call of the rate limiter as a whole', async () => {
    const server = await startScratchRedis();
    onTestFinished(() => server.stop());
    const world = await redisRateLimiterWorld(server.url);
    const rateLimiter = await world.rateLimiter();
    const first = await granted(rateLimiter, aRequest('a', oneAtATime));
    await suspended(rateLimiter, aRequest('b', oneAtATime));
    const stored = async () => {
      const names = await world.redis.keys('*');
      return new Map(
        await Promise.all(names.toSorted().map(async (name) => [name, await world.redis.dump(name)] as const)),
      );
    };
    const before = await stored();
    await world.redis.config('SET', 'maxmemory', '1');
    const full = { code: 'queue_unavailable' };
    await expect(rateLimiter.acquire(aRequest('c', oneAtATime), 0, never)).rejects.toMatchObject(full);
    await expect(rateLimiter.park(aRequest('c', oneAtATime))).rejects.toMatchObject(full);
    await expect(rateLimiter.settle(first, {})).rejects.toMatchObject(full);
    await expect(rateLimiter.leave('b')).rejects.toMatchObject(full);
    await expect(rateLimiter.dispatch()).rejects.toMatchObject(full);
    expect(await stored()).toEqual(before);
    await world.redis.config('SET', 'maxmemory', '0');
    await rateLimiter.leave('b');
    await granted(rateLimiter, aRequest('d', { maxInFlight: 2 }), 0);
  });

  test('when all is settled and no run waits, a limiter is a handful of keys', async () => {
    const world = await redisRateLimiterWorld();
    const rateLimiter = await world.rateLimiter();
    const limits = { requestsPerMinute: 60_000, tokensPerMinute: 60_000_000 };
    for (let i = 0; i < 20; i++) {
      const request = aRequest(`r${i}`, limits, { tenant: `t${i}` });
      await rateLimiter.settle(await granted(rateLimiter, request), { usedTokens: 150, outputTokens: 50 });
    }
    await rateLimiter.park(aRequest('left', limits));
    await rateLimiter.leave('left');
    expect(await rateLimiter.dispatch()).toEqual([]);
    const stored = await world.redis.keys(world.keys.limiter(limiter, '*').replaceAll(/[{}]/g, '?'));
    const parts = stored.map((key) => key.split(':').at(-1));
    expect(new Set(parts)).toEqual(new Set(['grants', 'past', 'state', 'window']));
    expect(await world.redis.hkeys(world.keys.limiter(limiter, 'grants'))).toEqual(['at']);
    expect(await world.redis.scard(world.keys.limiters)).toBe(0);
  });
});
