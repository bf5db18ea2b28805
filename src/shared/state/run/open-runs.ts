import { nextDeadlineOf } from '../../contract/deadline.ts';
import { legibleRecord } from '../../contract/legible-record.ts';
import type { RunKeySpace } from '../script.ts';
import { isTerminalStatus, type RunRecord } from '../../contract/run.ts';

type Space = Pick<RunKeySpace, 'redis' | 'keys'>;

/** A run that did not change for this long and has no job is taken to be lost. Longer than any enqueue takes. */
export const settledMs = 15_000;

/**
 * Has the reconciler check an open run soon. Called before a step that could be lost half-way with its process: a job that is
 * still to be added.
 */
export async function lookSoon({ redis, keys }: Space, runId: string): Promise<void> {
  await redis.zadd(keys.checks, 'XX', Date.now() + settledMs, runId);
}

/**
 * Takes a run that has ended out of the sets of open runs, and of those that wait for people. A record that is gone has no
 * tenant. A run that was redriven meanwhile stays. While lifecycle events of the run are still to be published, it stays listed
 * in `checks`.
 */
export async function forgetOpen(
  space: Pick<RunKeySpace, 'redis' | 'keys' | 'lifecycle'>,
  runId: string,
  tenant: string | undefined,
): Promise<void> {
  const { redis, keys } = space;
  const published = space.lifecycle.publish(runId);
  await Promise.all([
    redis.zrem(keys.open, runId),
    published.then(async (all) => await (all ? redis.zrem(keys.checks, runId) : lookSoon(space, runId))),
    redis.srem(keys.cancels, runId),
    redis.zrem(keys.deadlines, runId),
    tenant !== undefined && redis.srem(keys.openOf(tenant), runId),
    tenant !== undefined && redis.zrem(keys.asking(tenant), runId),
  ]);
  // Afterwards: a redrive lists the run when it is open, too.
  const [status, endedAt] = await redis.hmget(keys.run(runId), 'status', 'endedAt');
  if (!status || endedAt) return;
  const record = legibleRecord(await redis.hgetall(keys.run(runId)));
  if (!isTerminalStatus(record.status)) await listOpen(space, record, nextDeadlineOf(record));
}

/** Lists a run that is open again. `deadlineMs`: when it has to have ended or begun, in milliseconds since the epoch. */
export async function listOpen(
  { redis, keys }: Space,
  { runId, tenant }: Pick<RunRecord, 'runId' | 'tenant'>,
  deadlineMs: number | undefined,
): Promise<void> {
  const now = Date.now();
  await Promise.all([
    redis.zadd(keys.open, now, runId),
    redis.zadd(keys.checks, now + settledMs, runId),
    redis.sadd(keys.openOf(tenant), runId),
    deadlineMs !== undefined && redis.zadd(keys.deadlines, deadlineMs, runId),
  ]);
}
