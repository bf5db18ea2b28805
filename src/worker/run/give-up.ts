import { RunError } from '../../shared/base/errors.ts';
import type { RunJob } from '../../shared/contract/run.ts';
import { afterEnd } from './after-end.ts';
import type { RunDeps } from './open-run.ts';
import { openRun } from './open.ts';
import { refused } from './outcome.ts';
import { settle } from './settle.ts';

/** Ends a run that nobody can run, with `worker_lost` and the reason. Does nothing when the run has ended already. */
export async function giveUpRun(
  job: RunJob,
  reason: 'poison' | 'job_lost',
  worker: string,
  deps: RunDeps,
): Promise<void> {
  const delivery = {
    jobTry: Number.MAX_SAFE_INTEGER,
    queue: 'maintenance',
    worker,
    crashLimit: Number.MAX_SAFE_INTEGER,
    blameLimit: Number.MAX_SAFE_INTEGER,
    activity: 'watched' as const,
  };
  const opened = await openRun(job, delivery, deps, new AbortController().signal);
  if (opened.kind !== 'open') return;
  await using run = opened.run;
  const message =
    reason === 'poison'
      ? 'the run brought down every worker process that tried it; see its last events, then `millrace redrive`'
      : 'the job of this run kept vanishing from the queue';
  const error = new RunError('worker_lost', message, { details: { reason }, retryable: false });
  const outcome = await settle(run, refused(run, error), deps);
  if (outcome.kind === 'ended')
    await afterEnd({ ...run.record, status: outcome.status, heard: [...run.state.steered.keys()] }, deps);
}
