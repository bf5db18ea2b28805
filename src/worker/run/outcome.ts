import type { RunError } from '../../shared/base/errors.ts';
import type { RunStatus, RunRecord } from '../../shared/contract/run.ts';
import type { TurnState } from '../../shared/contract/journal/fold.ts';
import type { TurnOutcome } from '../turn/turn.ts';
import type { Clock } from '../../shared/base/clock.ts';
import { defined } from '../../shared/base/collections.ts';
import type { RecordPatch } from '../../shared/state/run/commit.ts';

/**
 * How a processor call ended, for the job layer.
 *
 * - ended: the run has its terminal event; `status` says which. A failed run carries its error
 * - suspended: the run waits, and uses no slot
 * - handed_over: another processor call continues from the journal
 * - skipped: there was nothing to do, for instance a second delivery of a run that has ended; `waiting`: another run
 *   has locked its thread, and queues it again when it ends
 * - crashed_too_often: too many workers were lost with the run for this queue to run it
 */
export type JobOutcome =
  | { readonly kind: 'ended'; readonly status: RunStatus; readonly error?: RunError }
  | { readonly kind: 'suspended' }
  | { readonly kind: 'handed_over' }
  | { readonly kind: 'skipped'; readonly reason: 'terminal' | 'gone' | 'stale' | 'waiting' | 'expired' }
  | { readonly kind: 'crashed_too_often'; readonly crashes: number };

/** A turn that could not be run to an outcome of its own. */
export function refused(run: { readonly state: TurnState }, error: RunError): TurnOutcome {
  return { status: 'failed', error, partialText: '', engaged: false, state: run.state };
}

type Totals = Required<
  Pick<RecordPatch, 'usage' | 'costMicrocents' | 'steps' | 'attempts' | 'toolCalls' | 'toolErrors'>
> &
  Pick<RecordPatch, 'childCostMicrocents'>;

/** What a run has used so far, for its record. */
export function totalsOf({ usage, costMicrocents, step: steps, attempts, counters, childEnds }: TurnState): Totals {
  const { toolCalls, toolErrors } = counters;
  const childCosts = [...childEnds.values()].map((end) => end.costMicrocents);
  const childCostMicrocents = childCosts.length === 0 ? undefined : childCosts.reduce((sum, cost) => sum + cost);
  return defined({ usage, costMicrocents, steps, attempts, toolCalls, toolErrors, childCostMicrocents });
}

/** From its first start until now. */
export function durationMs({ startedAt }: RunRecord, clock: Pick<Clock, 'now'>): number {
  return startedAt === undefined ? 0 : Math.max(0, Math.round(clock.now() - Date.parse(startedAt)));
}
