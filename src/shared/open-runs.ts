import type { Keys, RedisConnection } from './redis.ts';

/** Takes a run that has ended out of the sets of open runs, and of those that wait for people. A record that is gone does not say its tenant. */
export async function forgetOpen(
  { redis, keys }: { readonly redis: RedisConnection; readonly keys: Keys },
  runId: string,
  tenant: string | undefined,
): Promise<void> {
  await Promise.all([
    redis.zrem(keys.open, runId),
    redis.srem(keys.cancels, runId),
    redis.zrem(keys.deadlines, runId),
    tenant !== undefined && redis.srem(keys.openOf(tenant), runId),
    tenant !== undefined && redis.zrem(keys.asking(tenant), runId),
  ]);
}
