import { expect, test } from 'vitest';
import { systemClock } from '../../src/shared/base/clock.ts';
import { silentLog } from '../../src/shared/base/log.ts';
import { keysFor } from '../../src/shared/state/keys.ts';
import { type Admission, redisBreakers } from '../../src/shared/state/limits/breakers.ts';
import { testPrefix, testRedis } from '../support/redis.ts';
import { breakersContract } from './breakers.ts';
import { redisBreakersWorld } from './breakers-redis-world.ts';

breakersContract('Redis', () => redisBreakersWorld());

const never = new AbortController().signal;
const policy = { failureThreshold: 1, cooldownMs: 60_000 };
const closed: Admission = { kind: 'closed' };

test('a worker whose subscription is dead learns of a change by looking', async () => {
  const keys = keysFor(testPrefix());
  const redis = await testRedis();
  const lost = await testRedis('subscribe');
  const options = { redis, keys, clock: systemClock, log: silentLog };
  await using breakers = redisBreakers({ ...options, subscriber: lost });
  lost.disconnect();
  await using other = redisBreakers({ ...options, subscriber: await testRedis('subscribe') });
  await other.report('acme/m', 'failure', closed, { ...policy, failureThreshold: 2 });
  await expect.poll(() => breakers.states().get('acme/m')).toBe('closed');
  await other.report('acme/m', 'success', closed, policy);
  await expect.poll(() => breakers.states().size).toBe(0);
  await other.report('acme/m', 'failure', closed, policy);
  await expect.poll(() => breakers.states().get('acme/m')).toBe('open');
});

test('a worker is notified of a change, and does not wait for its next poll', async () => {
  const keys = keysFor(testPrefix());
  const blind = Object.assign(await testRedis(), { smembers: () => new Promise<string[]>(() => {}) });
  const options = { keys, clock: systemClock, log: silentLog };
  await using breakers = redisBreakers({ ...options, redis: blind, subscriber: await testRedis('subscribe') });
  await using other = redisBreakers({ ...options, redis: await testRedis(), subscriber: await testRedis('subscribe') });
  await other.report('acme/m', 'failure', closed, policy);
  await expect.poll(() => breakers.states().get('acme/m')).toBe('open');
});

test('a probe is kept while its call goes on, however long, and lapses when it is not renewed', async () => {
  const keys = keysFor(testPrefix());
  const redis = await testRedis();
  const subscriber = await testRedis('subscribe');
  await using breakers = redisBreakers({ redis, subscriber, keys, clock: systemClock, log: silentLog });
  const state = keys.breaker('acme/m');
  await breakers.report('acme/m', 'failure', closed, { ...policy, cooldownMs: 1 });
  await redis.hset(state, { probe: 'of a worker that died', probeUntil: Date.now() - 1 });
  await expect.poll(async () => (await breakers.admit('acme/m', 0, never)).kind).toBe('probe');
  const leaseEnd = async () => Number(await redis.hget(state, 'probeUntil'));
  const first = await leaseEnd();
  await expect.poll(leaseEnd).toBeGreaterThan(first);
  expect((await breakers.admit('acme/m', 0, never)).kind).toBe('open');
});

test('a process that does not know that it opened again gets no probe', async () => {
  const keys = keysFor(testPrefix());
  const redis = await testRedis();
  const subscriber = await testRedis('subscribe');
  await using breakers = redisBreakers({ redis, subscriber, keys, clock: systemClock, log: silentLog });
  await breakers.report('acme/m', 'failure', closed, { ...policy, cooldownMs: 1 });
  await expect.poll(() => breakers.states().get('acme/m')).toBe('half_open');
  await redis.hset(keys.breaker('acme/m'), 'openUntil', Date.now() + 60_000);
  expect((await breakers.admit('acme/m', 0, never)).kind).toBe('open');
});

test('while Redis is away calls are let through, and reports are forgotten', async () => {
  const redis = await testRedis();
  const subscriber = await testRedis('subscribe');
  await using breakers = redisBreakers({
    redis,
    subscriber,
    keys: keysFor(testPrefix()),
    clock: systemClock,
    log: silentLog,
  });
  redis.disconnect();
  await breakers.report('acme/m', 'failure', closed, policy);
  expect(await breakers.admit('acme/m', 0, never)).toEqual(closed);
});
