import { Cluster } from 'ioredis';
import type { KeySpace } from '../keys.ts';

/** Longer than a worker takes from reading a run to writing something of it, also one that is stopped in between. */
const keptMs = 86_400_000;

/** Notes that a run of which the record is gone was erased, for workers that are about to write something of it. */
export async function noteErased(
  { redis, keys }: KeySpace,
  { runId, createdAt }: { readonly runId: string; readonly createdAt: string },
): Promise<void> {
  await redis.set(keys.erased(runId), createdAt, 'PX', keptMs);
}

/** When the runs of these ids were created that were erased not long ago, as ISO times. Null: none was. */
export async function erasedNotLongAgo(
  { redis, keys }: KeySpace,
  runIds: readonly string[],
): Promise<readonly (string | null)[]> {
  const own = runIds.map(keys.erased);
  if (redis instanceof Cluster) return await Promise.all(own.map(async (key) => await redis.get(key)));
  return own.length === 0 ? [] : await redis.mget(own);
}
