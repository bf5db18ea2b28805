import { keysFor } from '../../src/shared/state/keys.ts';
import { redisToolPins } from '../../src/shared/state/pins/tool-pins.ts';
import { FakeClock } from '../../src/testing/fake-clock.ts';
import { testPrefix, testRedis } from '../support/redis.ts';

/** Pins in the test Redis, or in the one at `url`. */
export async function redisPinsWorld(url?: string) {
  const keys = keysFor(testPrefix());
  const clock = new FakeClock();
  const redis = await testRedis('work', url);
  return {
    keys,
    redis,
    clock,
    worker: async () => redisToolPins({ keys, clock, redis: await testRedis('work', url) }),
  };
}
