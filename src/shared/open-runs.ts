import type { Keys, RedisConnection } from './redis.ts';

/** A run that did not change for this long and has no job is taken to be lost. Longer than any enqueue takes. */
export const settledMs = 15_000;

interface Place {
  readonly redis: RedisConnection;
  readonly keys: Keys;
}

/**
 * Has an open run looked at soon. Called before a step that could be lost half-way with its process: a job that is still to be
 * added, a wake-up that is still to be given.
 */
export async function lookSoon({ redis, keys }: Place, runId: string): Promise<void> {
  await redis.zadd(keys.checks, 'XX', Date.now() + settledMs, runId);
}

/** Takes a run that has ended out of the sets of open runs, and of those that wait for people. A record that is gone does not say its tenant. */
export async function forgetOpen({ redis, keys }: Place, runId: string, tenant: string | undefined): Promise<void> {
  await Promise.all([
    redis.zrem(keys.open, runId),
    redis.zrem(keys.checks, runId),
    redis.srem(keys.cancels, runId),
    redis.zrem(keys.deadlines, runId),
    tenant !== undefined && redis.srem(keys.openOf(tenant), runId),
    tenant !== undefined && redis.zrem(keys.asking(tenant), runId),
  ]);
}
