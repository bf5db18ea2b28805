import { onTestFinished } from 'vitest';
import { systemClock } from '../../src/shared/base/clock.ts';
import type { RedisConnection } from '../../src/shared/state/connect.ts';
import { keysFor, type Keys } from '../../src/shared/state/keys.ts';
import { redisRateLimiter } from '../../src/shared/state/limits/rate/polled-limiter.ts';
import { testPrefix, testRedis } from '../support/redis.ts';
import type { RateLimiterWorld } from './rate-limiter.ts';

/** Rate limiters with a connection each, over limiters in the test Redis, or in the one at `url`. */
export async function redisRateLimiterWorld(
  url?: string,
): Promise<RateLimiterWorld & { readonly redis: RedisConnection; readonly keys: Keys }> {
  const keys = keysFor(testPrefix());
  return {
    keys,
    redis: await testRedis('work', url),
    async rateLimiter(observe = {}) {
      const rateLimiter = redisRateLimiter({ redis: await testRedis('work', url), keys, clock: systemClock, observe });
      onTestFinished(() => rateLimiter[Symbol.asyncDispose]());
      return rateLimiter;
    },
  };
}
