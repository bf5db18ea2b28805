import { onTestFinished } from 'vitest';
import { systemClock } from '../../src/shared/clock.ts';
import { silentLog } from '../../src/shared/log.ts';
import { keysFor } from '../../src/shared/redis.ts';
import { redisBreakers } from '../../src/worker/stores/redis-breakers.ts';
import { testPrefix, testRedis } from '../support/redis.ts';
import type { BreakersWorld } from './breakers.ts';

/** Breakers with connections of their own, in the test Redis, or in the one at `url`. */
export function redisBreakersWorld(url?: string): BreakersWorld {
  const keys = keysFor(testPrefix());
  return {
    async breakers() {
      const [redis, subscriber] = [await testRedis('work', url), await testRedis('subscribe', url)];
      const breakers = redisBreakers({ redis, subscriber, keys, clock: systemClock, log: silentLog });
      onTestFinished(() => breakers[Symbol.asyncDispose]());
      return breakers;
    },
  };
}
