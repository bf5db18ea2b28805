import { expect, test } from 'vitest';
import { systemClock } from '../../src/shared/clock.ts';
import { silentLog } from '../../src/shared/log.ts';
import { keysFor } from '../../src/shared/redis.ts';
import { redisBreakers } from '../../src/worker/stores/redis-breakers.ts';
import { testPrefix, testRedis } from '../support/redis.ts';
import { breakersContract } from './breakers.ts';
import { redisBreakersWorld } from './breakers-redis-world.ts';

breakersContract('Redis', () => redisBreakersWorld());

const never = new AbortController().signal;
const policy = { failureThreshold: 1, cooldownMs: 60_000 };

test('a worker whose subscription is dead learns of a change by looking', async () => {
  const keys = keysFor(testPrefix());
  const redis = await testRedis();
  const deaf = await testRedis('subscribe');
  const options = { redis, keys, clock: systemClock, log: silentLog };
  await using breakers = redisBreakers({ ...options, subscriber: deaf });
  deaf.disconnect();
  await using other = redisBreakers({ ...options, subscriber: await testRedis('subscribe') });
  await other.report('acme/m', 'failure', { kind: 'closed' }, policy);
  await expect.poll(() => breakers.states().get('acme/m'), { timeout: 10_000 }).toBe('open');
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
  await breakers.report('acme/m', 'failure', { kind: 'closed' }, policy);
  expect(await breakers.admit('acme/m', 0, never)).toEqual({ kind: 'closed' });
});
