import { isClusterUrl, type RedisConnection } from '../../src/shared/state/connect.ts';
import { keysFor, type Keys } from '../../src/shared/state/keys.ts';
import { redisThreads } from '../../src/shared/state/thread/threads.ts';
import { testPrefix, testRedis } from '../support/redis.ts';
import { FakeClock } from '../../src/testing/fake-clock.ts';
import type { ThreadsWorld } from './threads-world.ts';

export interface RedisThreadsWorld extends ThreadsWorld {
  readonly redis: RedisConnection;
  readonly keys: Keys;
}

/** The threads of the test Redis, or of the one at `url`, under a prefix of their own. */
export async function redisThreadsWorld(url?: string): Promise<RedisThreadsWorld> {
  const redis = await testRedis('work', url);
  const keys = keysFor(testPrefix());
  const clock = new FakeClock();
  const cluster = url !== undefined && isClusterUrl(url);
  return { redis, keys, clock, threads: redisThreads({ redis, keys, cluster, clock }, async () => {}) };
}
