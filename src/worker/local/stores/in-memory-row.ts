import { type RunGroup, isAnswer } from '../../../shared/state/run/children/children.ts';
import { storedCancel, type CallDecision, type ChildEnd } from '../../../shared/contract/control.ts';
import type { NewRun } from '../../../shared/state/run/create-runs.ts';
import type { DecisionRecord } from '../../../shared/contract/decisions.ts';
import { RunError } from '../../../shared/base/errors.ts';
import { eventVersion, type EventBody, type RunEvent, type PendingItem } from '../../../shared/contract/event.ts';
import type { JournalEntry } from '../../../shared/contract/journal/journal.ts';
import { jsonText } from '../../../shared/base/json.ts';
import type { RunRecord } from '../../../shared/contract/run.ts';
import { stampOf, type OutgoingEvent } from '../../../shared/state/script.ts';
import type { Claim, ClaimRequest } from '../../../shared/state/run/claim.ts';

/** Events kept per run, oldest dropped first. */
const maxEvents = 10_000;

/** A run in memory: its record, journal and event log, and the fields that Redis keeps beside the record. */
export interface Row {
  record: RunRecord;
  readonly entries: JournalEntry[];
  readonly events: RunEvent[];
  owner: string;
  op: string;
  claimed: boolean;
  unclean: boolean;
  previousWorker: string | undefined;
  claimSegment: number;
  claimTry: number;
  /** What people decided about calls, by the id of what was pending, and those of it that the journal does not have. */
  readonly decisions: Map<string, DecisionRecord>;
  readonly decided: CallDecision[];
  /** Its children that have ended, and their events that wait for its next claim. */
  readonly ended: Set<string>;
  readonly childEvents: OutgoingEvent[];
  /** While it waits for several runs: those that begin later, who begins by the end of whom, and whose cost it has. */
  group:
    | (RunGroup & { readonly next: NewRun[]; readonly begunBy: Map<string, NewRun>; readonly counted: Set<string> })
    | undefined;
}

/** What a run needs to go on in another process. */
export interface SavedRun {
  readonly record: RunRecord;
  readonly entries: readonly JournalEntry[];
  readonly decisions: readonly DecisionRecord[];
}

/** The record of a run that is about to be created. */
export function queuedRecord(
  run: Pick<RunRecord, 'runId' | 'tenant' | 'kind' | 'queue' | 'request' | 'parent'>,
  atMs: number,
): RunRecord {
  const { runId, tenant, kind, queue, request, parent } = run;
  const now = new Date(atMs).toISOString();
  return {
    v: 1,
    runId,
    tenant,
    kind,
    status: 'queued',
    request,
    ...(parent && { parent }),
    queue,
    segment: 0,
    createdAt: now,
    updatedAt: now,
    lastSequence: 0,
    epoch: 0,
    crashes: 0,
    steps: 0,
    costMicrocents: 0,
    attempts: [],
    pending: [],
  };
}

/** A run as it is just after its creation: queued, with that as its first event. */
export function newRow(record: RunRecord): Row {
  const queued: EventBody = { type: 'run.queued', kind: record.kind, queuedAt: record.createdAt };
  const about = { ...stampOf(record), timestamp: record.createdAt };
  return {
    record: { ...record, lastSequence: 1 },
    entries: [],
    events: [numbered({ ...about, ...queued }, 1)],
    owner: '',
    op: '',
    claimed: false,
    unclean: false,
    previousWorker: undefined,
    claimSegment: -1,
    claimTry: -1,
    decisions: new Map(),
    decided: [],
    ended: new Set(),
    childEvents: [],
    group: undefined,
  };
}

/** What children have cost, in the record of the parent, where no worker may be left to sum it up. */
export function addChildCosts(row: Row, decisions: readonly CallDecision[]): void {
  const ends = decisions.filter((decision) => decision.kind === 'child');
  if (ends.length === 0) return;
  const sum = ends.reduce((costMicrocents, end) => costMicrocents + end.costMicrocents, 0);
  const { costMicrocents, childCostMicrocents = 0 } = row.record;
  row.record = { ...row.record, costMicrocents: costMicrocents + sum, childCostMicrocents: childCostMicrocents + sum };
}

/** A run of another process, as if its worker had released it. Its earlier events stay there. */
export function importedRow({ record, entries, decisions }: SavedRun): Row {
  const { cancel: _, ...rest } = record;
  const status = record.status === 'running' ? 'queued' : record.status;
  return {
    ...newRow(record),
    record: { ...rest, status },
    entries: [...entries],
    events: [],
    decisions: new Map(decisions.map((decision) => [keyOf(decision, decisions), decision])),
  };
}

/** Where a call has the id of an earlier one, the latest is found by it. */
function keyOf(decision: DecisionRecord, all: readonly DecisionRecord[]): string {
  const isLatest = all.findLast(({ id }) => id === decision.id) === decision;
  return isLatest ? decision.id : `${decision.id}@${decision.resumes ?? 0}`;
}

/** Was this delivery of the run's job overtaken by a later one? */
export function isStale({ record, claimSegment, claimTry }: Row, { segment, jobTry }: ClaimRequest): boolean {
  if (record.status === 'suspended') return true;
  return segment < record.segment || segment < claimSegment || (segment === claimSegment && jobTry < claimTry);
}

/** What the present owner's claim answers. */
export function claimed(row: Row): Claim {
  const { record, entries, unclean, previousWorker } = row;
  return {
    kind: 'claimed',
    record,
    entries: [...entries],
    seq: record.lastSequence,
    first: record.epoch === 1,
    unclean,
    previousWorker,
    cancel: cancelOf(row),
  };
}

export function cancelOf({ record }: Row) {
  return !record.cancel ? undefined : storedCancel(record.cancel);
}

/** The number of the newest event, from the log: the record does not know of flushes. */
export function lastNumber({ record, events }: Row): number {
  return events.at(-1)?.sequenceNumber ?? record.lastSequence;
}

/** Adds events after number `seq` and answers them as subscribers see them. Throws `internal` when that is taken. */
export function append(row: Row, seq: number, events: readonly OutgoingEvent[]): readonly RunEvent[] {
  if (events.length > 0 && lastNumber(row) > seq) {
    throw new RunError('internal', `run ${row.record.runId} already has an event ${seq + 1}`);
  }
  const added = events.map((event, index) => numbered(event, seq + 1 + index));
  row.events.push(...added);
  if (row.events.length > maxEvents) row.events.splice(0, row.events.length - maxEvents);
  return added;
}

/** Was this very event written at this number? */
export function isWritten({ events }: Row, event: OutgoingEvent, sequenceNumber: number): boolean {
  const there = events.find((candidate) => candidate.sequenceNumber === sequenceNumber);
  return jsonText(there) === jsonText(numbered(event, sequenceNumber));
}

function numbered(event: OutgoingEvent, sequenceNumber: number): RunEvent {
  return { v: eventVersion, sequenceNumber, ...event };
}

/** Is this end what the run waits for? */
export function decides({ first }: NonNullable<Row['group']>, end: ChildEnd): boolean {
  return first && isAnswer(end);
}

/** The run that begins instead of one that has ended, if any. */
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
  addChildCosts(row, [end]);
  row.group?.counted.add(end.id);
}
