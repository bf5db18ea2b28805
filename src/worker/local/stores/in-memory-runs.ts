import type { Clock } from '../../../shared/base/clock.ts';
import type { CancelRequest, ChildEnd } from '../../../shared/contract/control.ts';
import type { DecisionRecord } from '../../../shared/contract/decisions.ts';
import type { Decide, DecideOutcome } from '../../../shared/state/run/control/decide.ts';
import type { EventBody, RunEvent } from '../../../shared/contract/event.ts';
import type { RunGroup } from '../../../shared/state/run/children/children.ts';
import type { NewRun } from '../../../shared/state/run/create-runs.ts';
import { jsonText } from '../../../shared/base/json.ts';
import type { RunRecord } from '../../../shared/contract/run.ts';
import type { ResumedRun } from '../../../shared/state/run/waits/resume.ts';
import { type Resumption, decidedEntry } from '../../../shared/state/run/waits/waits.ts';
import {
  checkCommit,
  clearsCrashes,
  type Commit,
  type CommitReply,
  type Ownership,
} from '../../../shared/state/run/commit.ts';
import { blameFor, checkClaimEvents, type Claim, type ClaimRequest } from '../../../shared/state/run/claim.ts';
import type { RunStore } from '../../../shared/state/run/run-store.ts';
import { stampOf, type OutgoingEvent } from '../../../shared/state/script.ts';
import {
  addChildCosts,
  append,
  cancelOf,
  claimed,
  importedRow,
  isStale,
  isWritten,
  lastNumber,
  newRow,
  type Row,
  type SavedRun,
  countInGroup,
  decides,
  followerOf,
} from './in-memory-row.ts';
import { takeDecided, vote } from './in-memory-decisions.ts';

/** Ended runs kept, oldest dropped first: this store lives as long as its process. */
const maxEndedRuns = 1_000;

/** Gets the events of a run once they are in its log; what was added together arrives together. Must not throw. */
export type EventsListener = (runId: string, events: readonly RunEvent[]) => void;

/** The run store of one process. It keeps the promises of the Redis one, except that nothing outlives the process. */
export class InMemoryRuns implements RunStore {
  readonly #rows = new Map<string, Row>();
  readonly #ended: string[] = [];
  readonly #clock: Clock;
  readonly #publish: EventsListener;

  constructor(clock: Clock, publish: EventsListener) {
    this.#clock = clock;
    this.#publish = publish;
  }

  create(record: RunRecord): void {
    if (this.#rows.has(record.runId)) return;
    const row = newRow(record);
    this.#rows.set(record.runId, row);
    this.#publish(record.runId, row.events.slice());
  }

  save(runId: string): SavedRun | undefined {
    const row = this.#rows.get(runId);
    if (!row) return undefined;
    // Of two calls with the same id the later one comes last; one that is still open, last of all.
    const decisions = [...row.decisions.values()].sort((a, b) => ((a.at ?? '~') < (b.at ?? '~') ? -1 : 1));
    return structuredClone({
      record: { ...row.record, lastSequence: lastNumber(row) },
      entries: row.entries,
      decisions,
    });
  }

  restore(saved: SavedRun): void {
    this.#rows.set(saved.record.runId, importedRow(structuredClone(saved)));
  }

  cancel(runId: string, cancel: CancelRequest): boolean {
    const row = this.#rows.get(runId);
    if (!row || row.record.endedAt) return false;
    row.record = { ...row.record, cancel: jsonText(cancel) };
    return true;
  }

  /** Queues a suspended run at its next segment. Answers undefined when there is no such run or it is not suspended. */
  resume(runId: string, resumption: Resumption): ResumedRun | undefined {
    const row = this.#rows.get(runId);
    if (row?.record.status !== 'suspended') return undefined;
    const event: EventBody = { type: 'run.resumed', directiveSummary: resumption.summary };
    const added = append(row, lastNumber(row), [{ ...stampOf(row.record), timestamp: this.#now(), ...event }]);
    const { decisions, left } = takeDecided(row, this.#now());
    const uncounted = decisions.filter(({ id }) => !row.group?.counted.has(id));
    addChildCosts(row, uncounted);
    const entry = decidedEntry(resumption, this.#clock.now());
    row.entries.push(decisions.length > 0 ? { ...entry, decisions } : entry);
    Object.assign(row, { owner: '', claimed: false, group: undefined });
    row.record = {
      ...row.record,
      status: 'queued',
      segment: row.record.segment + 1,
      resumes: (row.record.resumes ?? 0) + 1,
      resumedEpoch: row.record.epoch,
      pending: left,
      updatedAt: this.#now(),
      lastSequence: lastNumber(row),
    };
    this.#publish(runId, added);
    const { queue, segment, kind } = row.record;
    return { queue, segment, kind };
  }

  /** Records decisions about what a run waits for, all or none, and ends its wait once something is decided. */
  decide(runId: string, decide: Decide): DecideOutcome {
    const row = this.#rows.get(runId);
    if (!row) return { kind: 'gone' };
    if (row.record.endedAt) return { kind: 'terminal' };
    const votes = vote(row, decide, this.#now());
    if (votes.kind === 'refused') return votes;
    const { by, budget } = decide.entry;
    if (votes.complete === 0 && !budget) return { kind: 'recorded' };
    const resumed = this.resume(runId, { summary: decide.summary, by, budget });
    return resumed ? { kind: 'resumed', resumed } : { kind: 'recorded' };
  }

  /** From now on this run waits for several. Changes nothing where it does not wait in that segment. */
  waitForGroup(runId: string, group: RunGroup): void {
    const row = this.#rows.get(runId);
    if (row?.record.status !== 'suspended' || row.record.segment !== group.segment) return;
    if (row.group?.segment === group.segment) return;
    row.group = { ...group, next: [...group.later], begunBy: new Map(), counted: new Set() };
  }

  /** A child of this run has ended. Answers the run that begins instead of it. */
  childEnded(runId: string, end: ChildEnd): NewRun | undefined {
    const row = this.#rows.get(runId);
    if (!row) return undefined;
    const isNew = !row.ended.has(end.id);
    row.ended.add(end.id);
    const hasEnded = row.record.endedAt !== undefined;
    const next = isNew && !hasEnded ? followerOf(row, end) : row.group?.begunBy.get(end.id);
    if (isNew && (!hasEnded || row.record.status === 'failed'))
      row.decided.push(next ? { ...end, next: next.runId } : end);
    if (isNew && hasEnded) addChildCosts(row, [end]);
    if (hasEnded) return undefined;
    if (row.group && !decides(row.group, end)) {
      if (isNew) countInGroup(row, end, next, this.#now());
      if (next || row.record.pending.some(({ kind }) => kind === 'child')) return next;
    }
    if (row.decided.length > 0) this.resume(runId, { summary: `run ${end.id} ${end.status}` });
    return undefined;
  }

  /** Adds events of children to the log of a suspended run; a running one gets them with its next claim. */
  relay(runId: string, events: readonly OutgoingEvent[]): boolean {
    const row = this.#rows.get(runId);
    if (!row || row.record.endedAt) return false;
    if (row.record.status === 'suspended') {
      const added = append(row, lastNumber(row), [...row.childEvents.splice(0), ...events]);
      row.record = { ...row.record, lastSequence: lastNumber(row) };
      this.#publish(runId, added);
    } else {
      row.childEvents.push(...events);
    }
    return true;
  }

  /** All that is known about decisions of a run. */
  decisions(runId: string): readonly DecisionRecord[] {
    return [...(this.#rows.get(runId)?.decisions.values() ?? [])];
  }

  /** Are there decisions that the journal does not have? */
  hasDecisions(runId: string): boolean {
    return (this.#rows.get(runId)?.decided.length ?? 0) > 0;
  }

  events(runId: string): readonly RunEvent[] {
    return this.#rows.get(runId)?.events.slice() ?? [];
  }

  async claim(
    request: ClaimRequest,
    opening: readonly OutgoingEvent[],
    recovering: readonly OutgoingEvent[],
  ): Promise<Claim> {
    checkClaimEvents(opening, recovering);
    const row = this.#rows.get(request.runId);
    if (!row) return { kind: 'gone' };
    const { record } = row;
    if (record.endedAt) return { kind: 'terminal', status: record.status };
    if (row.owner === request.owner) return claimed(row);
    if (isStale(row, request)) return { kind: 'stale' };

    // A worker that releases a run clears `claimed`. A run that is still claimed lost its worker.
    const unclean = row.claimed;
    const { activity = 'idle', blame = 0, excuses = 0 } = record;
    const isExcused = unclean && record.worker === request.excusedWorker;
    const counts = unclean && !isExcused && activity !== 'waiting';
    const lost = {
      crashes: record.crashes + (counts ? 1 : 0),
      blame: blame + (counts ? blameFor(activity) : 0),
      excuses: excuses + (isExcused && activity === 'calls' ? 1 : 0),
    };
    if (lost.crashes >= request.crashLimit || lost.blame >= request.blameLimit) {
      Object.assign(row, { owner: '', claimed: false, record: { ...record, ...lost, activity: 'idle' } });
      return { kind: 'crashed_too_often', crashes: lost.crashes };
    }
    return this.#takeClaim(row, request, lost, unclean, record.epoch === 0 ? opening : recovering);
  }

  #takeClaim(
    row: Row,
    request: ClaimRequest,
    lost: Pick<RunRecord, 'crashes' | 'blame' | 'excuses'>,
    unclean: boolean,
    events: readonly OutgoingEvent[],
  ): Claim {
    const { owner, segment, jobTry, worker, queue } = request;
    const { record } = row;
    const added = append(row, lastNumber(row), [...row.childEvents.splice(0), ...events]);
    const previousWorker = record.worker;
    Object.assign(row, { owner, claimed: true, unclean, previousWorker, claimSegment: segment, claimTry: jobTry });
    row.record = {
      ...record,
      status: 'running',
      epoch: record.epoch + 1,
      ...lost,
      activity: request.activity,
      worker,
      queue,
      startedAt: record.startedAt ?? this.#now(),
      updatedAt: this.#now(),
      lastSequence: lastNumber(row),
    };
    this.#publish(record.runId, added);
    return claimed(row);
  }

  async commit({ runId, owner }: Ownership, commit: Commit): Promise<CommitReply> {
    checkCommit(runId, commit);
    const row = this.#rows.get(runId);
    if (!row) return { kind: 'fenced' };
    const asked = cancelOf(row);
    const waitsForPeople = commit.patch?.cancel === '' && asked?.onPendingApprovals === 'hold';
    const cancel = waitsForPeople ? undefined : asked;
    const done = { kind: 'ok', seq: commit.seq + commit.events.length, cancel } as const;
    if (row.op === commit.op) return done;
    if (row.owner !== owner) return { kind: 'fenced' };

    const added = append(row, commit.seq, commit.events);
    row.entries.push(...commit.entries);
    row.op = commit.op;
    const crashes = clearsCrashes(commit) ? 0 : row.record.crashes;
    const { cancel: _, ...patch } = commit.patch ?? {};
    if (waitsForPeople) delete row.record.cancel;
    row.record = {
      ...row.record,
      ...patch,
      crashes,
      updatedAt: this.#now(),
      lastSequence: done.seq,
      ...(commit.release && { activity: 'idle' }),
    } as RunRecord;
    if (commit.release) Object.assign(row, { owner: '', claimed: false });
    if (commit.dropsJournal) row.entries.length = 0;
    if (commit.release === 'terminal') {
      addChildCosts(row, row.decided);
      this.#retain(runId);
    }
    if (added.length > 0) this.#publish(runId, added);
    return done;
  }

  async flush({ runId }: Ownership, seq: number, events: readonly OutgoingEvent[]): Promise<CommitReply> {
    const [first] = events;
    if (!first) return { kind: 'ok', seq };
    const row = this.#rows.get(runId);
    if (!row) return { kind: 'fenced' };
    const done = { kind: 'ok', seq: seq + events.length } as const;
    if (lastNumber(row) > seq) return isWritten(row, first, seq + 1) ? done : { kind: 'fenced' };
    this.#publish(runId, append(row, seq, events));
    return done;
  }

  record(runId: string): RunRecord | undefined {
    return this.#rows.get(runId)?.record;
  }

  async load(runId: string): Promise<RunRecord | undefined> {
    return this.record(runId);
  }

  async pendingCancels(): Promise<ReadonlyMap<string, CancelRequest>> {
    const cancels = new Map<string, CancelRequest>();
    for (const [runId, row] of this.#rows) {
      const cancel = row.record.endedAt ? undefined : cancelOf(row);
      if (cancel) cancels.set(runId, cancel);
    }
    return cancels;
  }

  #retain(runId: string): void {
    this.#ended.push(runId);
    if (this.#ended.length > maxEndedRuns) this.#rows.delete(this.#ended.shift() as string);
  }

  #now(): string {
    return new Date(this.#clock.now()).toISOString();
  }
}
