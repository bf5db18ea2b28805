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

/** When the run of this id was created that was erased not long ago, as ISO time. Null: none was. */
export async function erasedNotLongAgo({ redis, keys }: KeySpace, runId: string): Promise<string | null> {
  return await redis.get(keys.erased(runId));
}
