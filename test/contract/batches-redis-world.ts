import { keysFor } from '../../src/shared/state/keys.ts';
import { redisBatches } from '../../src/shared/state/batch/batches.ts';
import { testPrefix, testRedis } from '../support/redis.ts';
import type { BatchesWorld } from './batches.ts';

/** Batches in the test Redis, or in the one at `url`. */
export async function redisBatchesWorld(url?: string): Promise<BatchesWorld> {
  const keys = keysFor(testPrefix());
  const redis = await testRedis('work', url);
  const store = redisBatches({ redis, keys });
  return {
    store,
    ttlS: async (id) => await redis.ttl(keys.batch(id)),
    async left(id) {
      const own = [
        keys.batchBegun(id),
        keys.batchFailed(id),
        keys.batchOpen(id),
        keys.batchSpent(id),
        keys.batchSample(id),
      ];
      const outputs = (['output', 'errors'] as const).flatMap((of) => [
        keys.batchLines(id, of),
        keys.batchParts(id, of),
      ]);
      const there = await Promise.all([...own, ...outputs].map(async (key) => [key, await redis.exists(key)] as const));
      return there.filter(([, exists]) => exists === 1).map(([key]) => key.split(':').slice(3).join(':'));
    },
    async gone(id) {
      await redis.del(keys.batch(id));
    },
  };
}
