import { defined } from '../../shared/base/collections.ts';
import { z } from 'zod';
import { maxDeadlineMs } from '../../shared/contract/agent/agent.ts';
import { deadlineOf } from '../../shared/contract/deadline.ts';
import { RunError } from '../../shared/base/errors.ts';
import { listOpen, redriveFailed } from '../../shared/state/run/open-runs.ts';
import { queueOf } from '../../shared/state/run/create-runs.ts';
import { reach, type TenantClient } from './client-core.ts';
import { listRuns } from './list-runs.ts';
import { loadLegible } from './read-run.ts';
import { missingRun } from './record/missing-run.ts';
import { checkRunId, runNotFound, safeInput } from './accept/validate.ts';
import { runFilter } from './run-filter.ts';
import type { RunRecord } from '../../shared/contract/run.ts';
import { parseAs } from '../../shared/base/problems.ts';

/** Pages of the tenant's runs that one call looks through. */
const maxPages = 50;

export const redriveRequest = runFilter.omit({ status: true }).extend({
  /** Just this run. Absent: the failed runs that the other fields fit, newest first. */
  runId: z.string().optional(),
  status: z.literal('failed', { error: 'only failed runs can be redriven' }).optional(),
  /** At most this many in one call: 1 to 1,000, default 100. */
  limit: z.int().min(1).max(1_000).default(100),
  /**
   * Milliseconds from now until each of them has to have ended. Absent: the deadline that it has. One whose deadline has passed
   * needs a new one.
   */
  deadlineMs: z.int().min(1).max(maxDeadlineMs).optional(),
});
export type RedriveRequest = Readonly<z.input<typeof redriveRequest>>;

export interface RedriveAnswer {
  /** Runs that are queued again. */
  readonly redriven: readonly string[];
  /** Runs that were left alone because their deadline has passed: redrive them with a new `deadlineMs`. */
  readonly late: readonly string[];
  /** How many runs that the filter fits cannot continue: only the archive has them. */
  readonly skipped: number;
  /** There may be more failed runs than this call looked at. */
  readonly more: boolean;
}

/** Queues failed runs again: one of them, or as many as `limit`. */
export async function redriveRuns(input: RedriveRequest, client: TenantClient): Promise<RedriveAnswer> {
  const asked = parseAs(redriveRequest, safeInput(input), 'the redrive request is not valid');
  const { runId, limit, deadlineMs, ...filter } = asked;
  if (runId !== undefined) {
    if (Object.values(filter).some((value) => value !== undefined))
      throw new RunError('validation', 'give runId or a filter, one of them');
    const done = await redriveRun(checkRunId(runId), deadlineMs, client);
    if (done === 'not_failed')
      throw new RunError('validation', `run ${runId} has not failed; only failed runs can be redriven`);
    if (done === 'late')
      throw new RunError(
        'deadline_exceeded',
        `the deadline of run ${runId} has passed: redrive it with a new deadlineMs`,
      );
    return { redriven: [runId], late: [], skipped: 0, more: false };
  }
  const redriven: string[] = [];
  const late: string[] = [];
  let skipped = 0;
  let cursor: string | undefined;
  for (let page = 0; page < maxPages; page++) {
    const found = await listRuns(defined({ ...filter, status: 'failed', cursor }), client);
    for (const run of found.runs) {
      if (redriven.length === limit) return { redriven, late, skipped, more: true };
      const done = await redriveRun(run.runId, deadlineMs, client).catch(ifLeft);
      if (done === 'redriven') redriven.push(run.runId);
      if (done === 'late') late.push(run.runId);
      if (done === 'archived') skipped += 1;
    }
    cursor = found.cursor;
    if (cursor === undefined) return { redriven, late, skipped, more: false };
  }
  return { redriven, late, skipped, more: true };
}

/** A list also has runs of which only the archive is left: one of them must not keep the others from being redriven. */
function ifLeft(error: unknown): 'archived' {
  if (error instanceof RunError && (error.code === 'gone' || error.code === 'run_not_found')) return 'archived';
  throw error;
}

/** Throws `gone` for a run that can be read in the archive, but no longer continue. */
async function readRecord(runId: string, client: TenantClient): Promise<RunRecord> {
  try {
    return await reach(client, (at) => loadLegible(runId, at));
  } catch (error) {
    if (!(error instanceof RunError) || error.code !== 'run_not_found') throw error;
    if (!(await client.core.archive.read(client.tenant, runId))) throw await missingRun(runId, client);
    const message = `run ${runId} cannot continue: its record is past RESULT_TTL_S, only its archive is left. Start a new run with its request`;
    throw new RunError('gone', message);
  }
}

/** `late`: it would end at once, because its deadline has passed. */
async function redriveRun(
  runId: string,
  deadlineMs: number | undefined,
  client: TenantClient,
): Promise<'redriven' | 'late' | 'not_failed'> {
  const record = await readRecord(runId, client);
  const { kind, request } = record;
  const queue = queueOf(request);
  const now = Date.now();
  const endBy = deadlineMs === undefined ? deadlineOf(record) : now + deadlineMs;
  // One that no worker has begun gets its whole time in the queue again.
  const startBy = record.epoch > 0 || request.queueTtlMs === undefined ? undefined : now + request.queueTtlMs;
  if (record.status !== 'failed') return 'not_failed';
  if (endBy !== undefined && endBy <= now) return 'late';
  return await reach(client, async ({ core, redis, tenant }) => {
    const times = [endBy, startBy].filter((time) => time !== undefined);
    const next = times.length === 0 ? undefined : Math.min(...times);
    const space = core.runKeySpace(redis);
    await listOpen(space, record, next);
    const until = deadlineMs === undefined ? undefined : now + deadlineMs;
    const done = await redriveFailed(space, record, { queue, atMs: now, deadlineMs: until, startByMs: startBy });
    if (done === 'gone') throw runNotFound(runId);
    if (done === 'not_failed') return done;
    // Again: the cleanup after its end may have removed it before it was open.
    await listOpen(space, record, next);
    await core.lifecycle.publish(runId);
    await redis.zadd(core.keys.index(tenant), 'NX', Date.parse(record.createdAt), runId);
    const { segment } = done;
    await core.queues.add({ queue, kind, runId, segment, priority: request.priority, delayMs: undefined });
    // The failed job is no longer needed.
    await core.queues.remove(record.queue, runId, record.segment).catch(core.onError);
    return 'redriven';
  });
}
