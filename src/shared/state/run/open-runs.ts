import { nextDeadlineOf } from '../../contract/deadline.ts';
import { legibleRecord } from '../../contract/run-record.ts';
import { type RunKeySpace, loadScript, runOnRun, scriptEvent, eventTargets, stampOf } from '../script.ts';
import { isTerminalStatus, type RunRecord } from '../../contract/run.ts';
import type { RedisConnection } from '../connect.ts';
import type { KeySpace } from '../keys.ts';
import { newNonce } from '../../base/ids.ts';
import { listForArchive } from '../archive/due-runs.ts';

const redriveScript = loadScript(import.meta.url, './redrive.lua');

/** A run that did not change for this long and has no job is taken to be lost. Longer than any enqueue takes. */
export const settledMs = 15_000;

/**
 * Has the reconciler check an open run soon. Called before a step that could be lost half-way with its process: a job that is
 * still to be added.
 */
export async function lookSoon({ redis, keys }: KeySpace, runId: string): Promise<void> {
  await redis.zadd(keys.checks, 'XX', Date.now() + settledMs, runId);
}

/**
 * Takes a run that has ended out of the sets of open runs, and of those that wait for people, once it is listed for the archive: it is
 * always in one of the lists. `known`: its tenant, should its record be gone. A run that was redriven meanwhile stays. While lifecycle
 * events of the run are still to be published, it stays listed in `checks`.
 */
export async function forgetOpen(
  space: Pick<RunKeySpace, 'redis' | 'keys' | 'lifecycle'>,
  runId: string,
  known?: string,
): Promise<void> {
  const { redis, keys } = space;
  const published = space.lifecycle.publish(runId);
  const [found, unarchived] = await redis.hmget(keys.run(runId), 'tenant', 'unarchived');
  const tenant = found ?? known;
  if (unarchived) await listForArchive(space, runId);
  await Promise.all([
    redis.zrem(keys.open, runId),
    published.then(async (all) => await (all ? redis.zrem(keys.checks, runId) : lookSoon(space, runId))),
    redis.srem(keys.cancels, runId),
    redis.zrem(keys.deadlines, runId),
    tenant && redis.srem(keys.openOf(tenant), runId),
    tenant && redis.zrem(keys.asking(tenant), runId),
  ]);
  // Afterwards: a redrive lists the run when it is open, too.
  const [status, endedAt] = await redis.hmget(keys.run(runId), 'status', 'endedAt');
  if (!status || endedAt) return;
  const record = await loadRun(runId, space);
  if (record && !isTerminalStatus(record.status)) await listOpen(space, record, nextDeadlineOf(record));
}

/** The record as far as it can be read; undefined when there is none. */
export async function loadRun(runId: string, { redis, keys }: KeySpace): Promise<RunRecord | undefined> {
  const hash = await redis.hgetall(keys.run(runId));
  return Object.keys(hash).length === 0 ? undefined : legibleRecord(hash);
}

/** Lists a run that is open again. `deadlineMs`: when it has to have ended or begun, in milliseconds since the epoch. */
export async function listOpen(
  { redis, keys }: KeySpace,
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

/** Lists a page of one set for checks: what has no time yet is due now. Returns where the next page begins. */
export async function relist(
  redis: RedisConnection,
  { listed, checks }: { readonly listed: string; readonly checks: string },
  offset: number,
  limit: number,
): Promise<number> {
  const members = await redis.zrange(listed, offset, String(offset + limit - 1));
  if (members.length > 0) await redis.zadd(checks, 'NX', ...members.flatMap((member) => [Date.now(), member]));
  return members.length < limit ? 0 : offset + limit;
}

/**
 * Queues a failed run again, to continue from its journal. Answers its new segment, or `gone`, or `not_failed`. The caller lists it as
 * open and adds its job.
 */
export async function redriveFailed(
  space: RunKeySpace,
  record: RunRecord,
  { queue, atMs, deadlineMs, startByMs }: Redrive,
): Promise<'gone' | 'not_failed' | { readonly segment: number }> {
  const { runId, kind, endedAt: failedAt } = record;
  const at = new Date(atMs).toISOString();
  const queued = scriptEvent({ ...stampOf(record), timestamp: at, type: 'run.queued', kind, queuedAt: at, failedAt });
  const times = [deadlineMs, startByMs].map((time) => (time === undefined ? '' : new Date(time).toISOString()));
  const args = [newNonce(), queue, at, queued, ...eventTargets(space, runId), ...times];
  const reply = (await runOnRun(space, runId, redriveScript, args, { doing: `redrive of run ${runId}` })) as
    | [0]
    | [1, string]
    | [2, number];
  if (reply[0] === 0) return 'gone';
  return reply[0] === 1 ? 'not_failed' : { segment: reply[1] };
}

/** Times in milliseconds since the epoch. */
export interface Redrive {
  readonly queue: string;
  readonly atMs: number;
  /** A new deadline. Undefined: the run keeps the one that it has. */
  readonly deadlineMs: number | undefined;
  /** When a worker has to have begun it. */
  readonly startByMs: number | undefined;
}
