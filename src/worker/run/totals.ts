import type { Clock } from '../../shared/base/clock.ts';
import { defined } from '../../shared/base/defined.ts';
import type { TurnState } from '../../shared/contract/journal/fold.ts';
import type { RunRecord } from '../../shared/contract/run.ts';
import type { RecordPatch } from '../../shared/state/run/run-store.ts';

type Totals = Required<Pick<RecordPatch, 'usage' | 'costMicrocents' | 'steps' | 'attempts' | 'toolCalls'>> &
  Pick<RecordPatch, 'childCostMicrocents'>;

/** What a run has used so far, for its record. */
export function totalsOf({ usage, costMicrocents, step: steps, attempts, counters, childEnds }: TurnState): Totals {
  const { toolCalls } = counters;
  const childCosts = [...childEnds.values()].map((end) => end.costMicrocents);
  const childCostMicrocents = childCosts.length === 0 ? undefined : childCosts.reduce((sum, cost) => sum + cost);
  return defined({ usage, costMicrocents, steps, attempts, toolCalls, childCostMicrocents });
}

/** From its first start until now. */
export function durationMs({ startedAt }: RunRecord, clock: Pick<Clock, 'now'>): number {
  return startedAt === undefined ? 0 : Math.max(0, Math.round(clock.now() - Date.parse(startedAt)));
}
