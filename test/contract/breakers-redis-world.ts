import { onTestFinished } from 'vitest';
import { systemClock } from '../../src/shared/base/clock.ts';
import { silentLog } from '../../src/shared/base/log.ts';
import { keysFor } from '../../src/shared/state/keys.ts';
import { redisBreakers } from '../../src/shared/state/limits/breakers.ts';
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
