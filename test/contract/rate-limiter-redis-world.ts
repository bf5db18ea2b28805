import { onTestFinished } from 'vitest';
import { systemClock } from '../../src/shared/base/clock.ts';
import type { RedisConnection } from '../../src/shared/state/connect.ts';
import { keysFor, type Keys } from '../../src/shared/state/keys.ts';
import { redisGovernor } from '../../src/shared/state/limits/rate/limiters.ts';
import { testPrefix, testRedis } from '../support/redis.ts';
import type { GovernorWorld } from './rate-limiter.ts';

/** Governors with a connection each, over limiters in the test Redis, or in the one at `url`. */
export async function redisGovernorWorld(
  url?: string,
): Promise<GovernorWorld & { readonly redis: RedisConnection; readonly keys: Keys }> {
  const keys = keysFor(testPrefix());
  return {
    keys,
    redis: await testRedis('work', url),
    async governor(observe = {}) {
      const governor = redisGovernor({ redis: await testRedis('work', url), keys, clock: systemClock, observe });
      onTestFinished(() => governor[Symbol.asyncDispose]());
      return governor;
    },
  };
}
