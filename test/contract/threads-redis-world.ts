import { isClusterUrl, type RedisConnection } from '../../src/shared/state/connect.ts';
import { keysFor, type Keys } from '../../src/shared/state/keys.ts';
import type { ThreadKeySpace } from '../../src/shared/state/thread/key-space.ts';
import { redisThreads } from '../../src/shared/state/thread/threads.ts';
import { testPrefix, testRedis } from '../support/redis.ts';
import { FakeClock } from '../../src/testing/fake-clock.ts';
import type { ThreadsWorld } from './threads-world.ts';

export interface RedisThreadsWorld extends ThreadsWorld {
  readonly redis: RedisConnection;
  readonly keys: Keys;
  readonly space: ThreadKeySpace;
}

/** The threads of the test Redis, or of the one at `url`, under a prefix of their own. */
export async function redisThreadsWorld(url?: string): Promise<RedisThreadsWorld> {
  const redis = await testRedis('work', url);
  const keys = keysFor(testPrefix());
  const clock = new FakeClock();
  const cluster = url !== undefined && isClusterUrl(url);
  const space = { redis, keys, cluster, clock };
  return { redis, keys, clock, space, threads: redisThreads(space, async () => {}) };
}
