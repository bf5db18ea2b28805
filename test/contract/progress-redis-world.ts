import { systemClock } from '../../src/shared/base/clock.ts';
import { keysFor } from '../../src/shared/state/keys.ts';
import { redisProgress } from '../../src/shared/state/results/progress-notes.ts';
import { testPrefix, testRedis } from '../support/redis.ts';

/** Progress notes in the test Redis, or in the one at `url`, with their texts there or in a folder. */
export async function redisProgressWorld({ url, root }: { readonly url?: string; readonly root?: string } = {}) {
  const keys = keysFor(testPrefix());
  const redis = await testRedis('work', url);
  const options = { keys, clock: systemClock, ttlS: 1_000, ...(root !== undefined && { root }) };
  const worker = async () => redisProgress({ ...options, redis: await testRedis('work', url) });
  return { keys, redis, worker };
}
