import { isAnswer } from '../../../shared/state/run/children/children.ts';
import type { ChildEnd } from '../../../shared/contract/control.ts';
import type { NewRun } from '../../../shared/state/run/create-runs.ts';
import type { PendingItem } from '../../../shared/contract/event.ts';
import { addCosts, cancelOf, type Row } from './memory-row.ts';

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
function pendingAfter(row: Row, end: ChildEnd, next: NewRun | undefined, at: string): PendingItem[] {
  const left = row.record.pending.filter(({ kind, id }) => kind !== 'child' || id !== end.id);
  if (!next) return left;
  return [...left, { kind: 'child', id: next.runId, args: { agentId: next.request.agent }, requestedAt: at }];
}

/** A run of the group has ended, and the others go on: what it cost shows at once. */
export function countInGroup(row: Row, end: ChildEnd, next: NewRun | undefined, at: string): void {
  row.record = { ...row.record, pending: pendingAfter(row, end, next, at) };
  addCosts(row, [end]);
  row.group?.counted.add(end.id);
}
