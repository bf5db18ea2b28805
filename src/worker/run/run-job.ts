import type { RunJob } from '../../shared/run.ts';
import { openRun, type Delivery, type RunDeps } from './open.ts';
import { runTries } from './node-retry.ts';
import type { JobOutcome } from './outcome.ts';
import { settle } from './settle.ts';

/**
 * Runs one segment of a run: open, one turn, settle. Expected ends are values; it throws `lock_lost` when somebody else
 * took the run over and `queue_unavailable` when the store does not take writes, and then nothing was acknowledged.
 */
export async function runJob(job: RunJob, delivery: Delivery, deps: RunDeps, signal: AbortSignal): Promise<JobOutcome> {
  const opened = await openRun(job, delivery, deps, signal);
  if (opened.kind !== 'open') return opened;
  await using run = opened.run;
  return await settle(run, await runTries(run, deps));
}
