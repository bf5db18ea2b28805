import { keysFor } from '../../src/shared/state/keys.ts';
import { redisArtifacts } from '../../src/shared/state/results/redis-artifacts.ts';
import { testPrefix, testRedis } from '../support/redis.ts';
import { artifactBounds } from './artifacts.ts';

/** Kept results in the test Redis, or in the one at `url`; each store has a connection of its own. */
export async function redisArtifactsWorld(url?: string) {
  const keys = keysFor(testPrefix());
  const redis = await testRedis('work', url);
  const worker = async () => redisArtifacts({ redis: await testRedis('work', url), keys, bounds: artifactBounds });
  return { keys, redis, worker };
}
