import { defined } from '../../base/collections.ts';
import { isTerminal, type EventOf, type RunEvent } from '../event.ts';
import type { JournalEntry, JournalEntryOf } from '../journal/journal.ts';
import { isTerminalStatus, type RunRecord } from '../run.ts';
import type { SegmentView, WaitView } from './run-steps.ts';

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/** Where a run has been: on which workers, and what it waited for without one. */
export function courseOf(
  record: RunRecord,
  entries: readonly JournalEntry[],
  events: readonly RunEvent[],
): { readonly segments: SegmentView[]; readonly waits: WaitView[] } {
  const course = new Course(record, events[0]);
  for (const event of events) course.add(event);
  const begins = events[0]?.timestamp;
  const before = waitsBefore(begins, entries);
  const waits = [...before, ...course.waits];
  addDeciders(waits, entries);
  for (const wait of waits) if (record.endedAt !== undefined) wait.to ??= record.endedAt;
  return { segments: course.ended(record), waits };
}

class Course {
  readonly segments: Mutable<SegmentView>[] = [];
  readonly waits: Mutable<WaitView>[] = [];
  /** When the last event came that a worker wrote. */
  #seenAt: string | undefined;
  /** When it had failed, until it is redriven. */
  #failedAt: string | undefined;

  constructor({ startedAt }: RunRecord, first: RunEvent | undefined) {
    // A log that has lost its beginning does not say when the run began.
    const isWhole = first?.sequenceNumber === 1 || first?.type === 'run.queued';
    if (!isWhole && startedAt !== undefined) this.segments.push({ from: startedAt });
  }

  add(event: RunEvent): void {
    const { timestamp: at } = event;
    const open = this.#open();
    switch (event.type) {
      case 'run.queued':
        if (this.#failedAt !== undefined)
          this.waits.push({ reason: 'redrive', from: this.#failedAt, to: at, waitsFor: [], by: [] });
        this.#failedAt = undefined;
        break;
      case 'run.started':
        this.segments.push(defined({ worker: event.worker, from: at }));
        break;
      case 'run.recovered':
        if (open) this.#left(open, event);
        this.segments.push(defined({ worker: event.worker, from: at, recoveredFrom: event.fromCheckpoint }));
        break;
      case 'run.suspended':
        if (open) Object.assign(open, { to: at, end: 'suspended' } satisfies Partial<SegmentView>);
        this.waits.push(waitOf(event));
        break;
      case 'run.resumed':
        Object.assign(this.waits.at(-1) ?? {}, { to: at, summary: event.directiveSummary });
        break;
      default:
        if (isTerminal(event) && open) Object.assign(open, { to: at, end: 'ended' } satisfies Partial<SegmentView>);
        if (isTerminal(event)) this.#endWait(at);
        if (event.type === 'run.failed') this.#failedAt = at;
    }
    this.#seenAt = at;
  }

  /** The last worker is in the record. */
  ended({ worker, status, endedAt }: RunRecord): SegmentView[] {
    const last = this.segments.at(-1);
    if (last && worker !== undefined) last.worker ??= worker;
    if (last && isTerminalStatus(status)) {
      last.to ??= endedAt ?? last.from;
      last.end ??= 'ended';
    }
    return this.segments;
  }

  #open(): Mutable<SegmentView> | undefined {
    const last = this.segments.at(-1);
    return last?.to === undefined ? last : undefined;
  }

  #left(open: Mutable<SegmentView>, { timestamp, previousWorker, worker, lost }: EventOf<'run.recovered'>): void {
    open.to = this.#seenAt ?? timestamp;
    if (previousWorker !== undefined) open.worker ??= previousWorker;
    // A worker that says who it is also says whether the one before was lost.
    if (lost) open.end = 'lost';
    else if (worker !== undefined) open.end = 'handed_over';
  }

  #endWait(at: string): void {
    const last = this.waits.at(-1);
    if (last) last.to ??= at;
  }
}

function waitOf({ timestamp, reason, pending }: EventOf<'run.suspended'>): Mutable<WaitView> {
  const waitsFor = pending.map(({ kind, id, toolCallId, toolName }) =>
    defined({ kind, id: toolCallId ?? id ?? '', toolName }),
  );
  return { reason, from: timestamp, waitsFor, by: [] };
}

/** Of waits that began before the log does the journal knows the outline. */
function waitsBefore(begins: string | undefined, entries: readonly JournalEntry[]): Mutable<WaitView>[] {
  const waits: Mutable<WaitView>[] = [];
  for (const entry of entries) {
    if (entry.t === 'suspended' && (begins === undefined || entry.at < begins)) waits.push(outlineOf(entry));
    const last = waits.at(-1);
    if (entry.t === 'decided' && last) last.to ??= entry.at;
  }
  return waits;
}

function outlineOf({ reason, at, asks = [], children = [] }: JournalEntryOf<'suspended'>): Mutable<WaitView> {
  const runs = children.map((id) => ({ kind: 'child' as const, id }));
  return { reason, from: at, waitsFor: [...asks.map(({ kind, id }) => ({ kind, id })), ...runs], by: [] };
}

/** Each wait that has ended is followed by an entry that says by whom. */
function addDeciders(waits: readonly Mutable<WaitView>[], entries: readonly JournalEntry[]): void {
  const decided = entries.filter((entry) => entry.t === 'decided');
  for (const [index, wait] of waits.entries()) {
    const next = waits[index + 1]?.from;
    const of = decided.filter(({ at }) => at >= wait.from && (next === undefined || at <= next));
    const people = of.flatMap(({ by, decisions = [] }) => [
      ...(by === undefined ? [] : [by]),
      ...decisions.flatMap((decision) => (decision.kind === 'child' ? [] : decision.by)),
    ]);
    wait.by = [...new Set(people)];
  }
}
