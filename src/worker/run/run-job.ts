import type { RunJob } from '../../shared/run.ts';
import { runTurn } from '../turn/turn.ts';
import { openRun, type Delivery, type RunDeps } from './open.ts';
import { refused, type JobOutcome } from './outcome.ts';
import { settle } from './settle.ts';
import { turnFor } from './turn-for.ts';

/**
 * Runs one segment of a run: open, one turn, settle. Expected ends are values; it throws `lock_lost` when somebody else
 * took the run over and `queue_unavailable` when the store does not take writes, and then nothing was acknowledged.
 */
export async function runJob(job: RunJob, delivery: Delivery, deps: RunDeps, signal: AbortSignal): Promise<JobOutcome> {
  const opened = await openRun(job, delivery, deps, signal);
  if (opened.kind !== 'open') return opened;
  await using run = opened.run;
  const turn = turnFor(run, deps);
  if (turn.kind === 'refused') return await settle(run, refused(run, turn.error));
  return await settle(run, await runTurn(turn.spec, run.state, turn.deps, run.signal));
}
