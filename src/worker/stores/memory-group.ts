import { isAnswer } from '../../shared/children.ts';
import type { ChildEnd } from '../../shared/control.ts';
import type { NewRun } from '../../shared/create-runs.ts';
import type { PendingItem } from '../../shared/event.ts';
import type { RunRecord } from '../../shared/run.ts';
import { cancelOf, type Row } from './memory-row.ts';

/** Is this end what the run waits for? */
export function decides({ first }: NonNullable<Row['group']>, end: ChildEnd): boolean {
  return first && isAnswer(end);
}

/** Who begins in the place of a run that has ended, if anybody does. */
export function followerOf(row: Row, end: ChildEnd): NewRun | undefined {
  const { group } = row;
  if (!group || cancelOf(row) || decides(group, end)) return undefined;
  const next = group.next.shift();
  if (next) group.begunBy.set(end.id, next);
  return next;
}

/** What a run waits for once one has ended and another one begins. */
export function pendingAfter(row: Row, end: ChildEnd, next: NewRun | undefined, at: string): PendingItem[] {
  const left = row.record.pending.filter(({ kind, id }) => kind !== 'child' || id !== end.id);
  if (!next) return left;
  return [...left, { kind: 'child', id: next.runId, args: { agentId: next.request.agent }, requestedAt: at }];
}

export function withCostOf(end: ChildEnd, record: RunRecord): RunRecord {
  const { costMicrocents, childCostMicrocents = 0 } = record;
  return {
    ...record,
    costMicrocents: costMicrocents + end.costMicrocents,
    childCostMicrocents: childCostMicrocents + end.costMicrocents,
  };
}
