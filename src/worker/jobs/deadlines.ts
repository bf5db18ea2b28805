import { deadlineExceeded, deadlineOf, nextDeadlineOf, queueExpired } from '../../shared/contract/deadline.ts';
import type { ErrorInfo } from '../../shared/base/errors.ts';
import { jobIdFor } from '../../shared/base/ids.ts';
import type { Log } from '../../shared/base/log.ts';
import { isTerminalStatus, type RunRecord } from '../../shared/contract/run.ts';
import { repeat, type Clock } from '../../shared/base/clock.ts';
import type { ThreadStore } from '../../shared/state/thread/threads.ts';
import type { Timers } from '../../shared/state/run/waits/waits.ts';
import type { RunStore } from '../../shared/state/run/run-store.ts';
import type { RunQueues } from '../../shared/state/fleet/queues.ts';

export interface DeadlineDeps {
  readonly deadlines: Timers;
  readonly runs: Pick<RunStore, 'load'>;
  readonly threads: Pick<ThreadStore, 'enter'>;
  readonly queues: Pick<RunQueues, 'get'>;
  readonly clock: Pick<Clock, 'now'>;
  readonly log: Log;
  /** Ends a queued run before a worker begins it, see `endUnstarted`. */
  end(record: RunRecord, error: ErrorInfo, options: { readonly anew: boolean }): Promise<boolean>;
  wake(runId: string, summary: string): void;
}

/** Every worker polls so often; each due run is given to one of them. */
const everyMs = 1_000;
const atOnce = 100;

/**
 * Ends runs whose deadline has passed, or their time in the queue, and that no worker has: those that have not begun at once;
 * suspended ones by resuming them, so that the next worker ends them. A run on a worker is ended by that one, and a begun run
 * in a queue by the next.
 */
export function watchDeadlines(deps: DeadlineDeps): AsyncDisposable {
  const { deadlines, log } = deps;
  const poll = async () => {
    for (const runId of await deadlines.due(atOnce))
      await expire(runId, deps).catch((err: unknown) => log.warn({ err, runId }, 'run was not ended at its deadline'));
  };
  return repeat(everyMs, poll, (err) => log.debug({ err }, 'deadlines could not be read'));
}

async function expire(runId: string, deps: DeadlineDeps): Promise<void> {
  const { deadlines, runs, clock } = deps;
  const record = await runs.load(runId);
  const atMs = record && nextDeadlineOf(record);
  if (!record || atMs === undefined || isTerminalStatus(record.status)) return await deadlines.clear(runId);
  if (atMs > clock.now()) return await deadlines.at(runId, atMs);
  if (record.status === 'suspended') deps.wake(runId, 'its deadline has passed');
  if (record.status === 'queued') await endUnstarted(record, atMs, deps);
}

async function endUnstarted(record: RunRecord, atMs: number, deps: DeadlineDeps): Promise<void> {
  const { queues, log } = deps;
  const { runId, queue, segment } = record;
  const isLate = deadlineOf(record) === atMs;
  const { code, message, retryable } = isLate ? deadlineExceeded(atMs) : queueExpired(queue, atMs);
  const anew = record.epoch > 0 && (await waitsForThread(record, deps));
  if (!(await deps.end(record, { code, message, retryable }, { anew }))) return;
  // A job that stays would only be skipped.
  await queues
    .get(queue)
    .remove(jobIdFor(runId, segment))
    .catch((err: unknown) => log.debug({ err, runId }, 'job of an ended run was not removed'));
}

async function waitsForThread({ runId, tenant, request }: RunRecord, { threads }: DeadlineDeps): Promise<boolean> {
  const { thread: threadId, agent: agentId } = request;
  if (threadId === undefined) return false;
  return (await threads.enter({ tenant, threadId, runId, agentId })).kind === 'waiting';
}
