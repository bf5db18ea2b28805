import { RunError } from '../../shared/base/errors.ts';
import type { RunRecord } from '../../shared/contract/run.ts';
import { afterEnd } from './after-end.ts';
import type { RunDeps } from './open-run.ts';
import { openRun } from './open.ts';
import { refused } from './outcome.ts';
import { settle } from './settle.ts';

const reasons = {
  poison: 'the run brought down every worker process that tried it; see its last events, then `millrace redrive`',
  job_lost: 'the job of this run kept vanishing from the queue',
} as const;

/**
 * Ends a run that no worker can finish, with `worker_lost` and the reason: takes it from the worker that had it and settles it,
 * without a job and without a turn. Does nothing when the run has ended already.
 *
 * A claim and a settlement, and not one script as for a run that has not begun (`endUnstarted`): the cost of the run, its open
 * children, what goes into its thread and which steering messages it has read are in its journal, and the fold of the journal
 * is TypeScript. The event of the claim takes the next number, which fences the flushes of a worker that is still alive.
 */
export async function abandonRun(
  run: Pick<RunRecord, 'runId' | 'segment'>,
  reason: keyof typeof reasons,
  worker: string,
  deps: RunDeps,
): Promise<void> {
  const taker = { queue: 'maintenance', worker, activity: 'watched' } as const;
  const opened = await openRun(run, taker, deps, new AbortController().signal);
  if (opened.kind !== 'open') return;
  await using open = opened.run;
  const error = new RunError('worker_lost', reasons[reason], { details: { reason }, retryable: false });
  const outcome = await settle(open, refused(open, error), deps);
  if (outcome.kind !== 'ended') return;
  await afterEnd({ ...open.record, status: outcome.status, inboxRead: [...open.state.steered.keys()] }, deps);
}
