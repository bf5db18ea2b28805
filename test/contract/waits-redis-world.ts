import { redisWaits } from '../../src/worker/stores/redis-waits.ts';
import { redisWorld, type RedisWorld } from './redis-world.ts';
import type { WaitsWorld } from './waits.ts';

/** The waits of the test Redis, or of the one at `url`. */
export async function redisWaitsWorld(url?: string): Promise<RedisWorld & WaitsWorld> {
  const world = await redisWorld(url);
  return {
    ...world,
    waits: redisWaits(world.options),
    now: async () => Date.now(),
  };
}
