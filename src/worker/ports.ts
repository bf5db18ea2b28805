import type { CancelRequest } from '../shared/control.ts';
import type { Clock } from '../shared/clock.ts';
import type { EventBody, EventEnvelope, PendingItem } from '../shared/event.ts';
import type { ErrorInfo } from '../shared/errors.ts';
import type { Attempt, JournalEntry } from '../shared/journal.ts';
import type { RunUsage } from '../shared/money.ts';
import type { Redactor } from '../shared/redact.ts';
import type { Log } from '../shared/log.ts';
import type { AgentView } from '../shared/agent.ts';
import type { JobKind, RunRecord, RunStatus } from '../shared/run.ts';
import type { RunResultBody } from '../shared/event.ts';

/** The right to write to a run: a fresh nonce per processor call. */
export interface Ownership {
  readonly runId: string;
  readonly owner: string;
}

/** An event on its way out: the envelope without the number, which the store gives. */
export type OutgoingEvent = Omit<EventEnvelope, 'sequenceNumber' | 'v'> & EventBody;

export interface ClaimRequest {
  readonly runId: string;
  readonly owner: string;
  readonly segment: number;
  /** BullMQ's `attemptsStarted` of the job: a lower one than the last claimed is a delivery that was overtaken. */
  readonly jobTry: number;
  readonly worker: string;
  readonly queue: string;
  /** Unclean takeovers after which the run is refused here: it belongs to quarantine, or nowhere. */
  readonly crashLimit: number;
}

/** What claiming a run answers. Only `claimed` gives the right to write. */
export type Claim =
  | {
      readonly kind: 'claimed';
      readonly record: RunRecord;
      readonly entries: readonly JournalEntry[];
      readonly seq: number;
      /** No processor call ever held this run before. */
      readonly first: boolean;
      /** The previous holder let go without a word: it crashed or lost its lock. */
      readonly unclean: boolean;
      readonly previousWorker?: string;
      readonly cancel?: CancelRequest;
    }
  | { readonly kind: 'crashed_too_often'; readonly crashes: number }
  | { readonly kind: 'terminal'; readonly status: RunStatus }
  | { readonly kind: 'gone' }
  | { readonly kind: 'stale' };

/** Fields of the record that a commit may change. */
export interface RecordPatch {
  readonly status?: RunStatus;
  readonly steps?: number;
  readonly usage?: RunUsage;
  readonly costMicrocents?: number;
  readonly attempts?: readonly Attempt[];
  readonly pending?: readonly PendingItem[];
  readonly result?: RunResultBody;
  readonly error?: ErrorInfo;
  readonly startedAt?: string;
  readonly endedAt?: string;
}

/**
 * One durable write: new journal entries, new events and changed fields, all or nothing. `release` gives the ownership
 * up in the same step: `handed_over` (another processor call continues), `suspended`, or `terminal` (sets the
 * retention; nothing can be written afterwards). A commit with entries is progress: it sets the count of crashes to 0.
 */
export interface Commit {
  /** Unique per commit of an owner. A repeat of the same id changes nothing and answers like the first. */
  readonly op: string;
  /** The last number given so far. The first event of this commit gets the next one. */
  readonly seq: number;
  readonly entries: readonly JournalEntry[];
  readonly events: readonly OutgoingEvent[];
  readonly patch?: RecordPatch;
  readonly release?: 'handed_over' | 'suspended' | 'terminal';
}

/** `fenced`: somebody else owns the run, nothing was written, and nothing more may be. */
export type CommitReply =
  | { readonly kind: 'ok'; readonly seq: number; readonly cancel?: CancelRequest }
  | { readonly kind: 'fenced' };

/**
 * Runs, their journals and their event logs. Kept in Redis by `stores/redis-runs.ts`, in memory by `stores/memory.ts`;
 * both pass `test/contract/run-store.ts`. Throws `queue_unavailable` when the store cannot be reached.
 */
export interface RunStore {
  /**
   * Takes the run over: new owner, status running, and in the same step the events that say so: `opening` for a run
   * that nobody held before, `recovering` otherwise. Because a claim always adds an event, a stale writer's next event
   * number is already taken: that is what fences `flush`.
   */
  claim(request: ClaimRequest, opening: readonly OutgoingEvent[], recovering: readonly OutgoingEvent[]): Promise<Claim>;
  /** Writes under the ownership. One call at a time per run. */
  commit(ownership: Ownership, commit: Commit): Promise<CommitReply>;
  /**
   * Adds events alone, after number `seq`. Cheaper than a commit: several runs' flushes of one tick leave together and
   * no field is read. A number that is already taken answers `fenced`, unless it is this very flush sent twice.
   */
  flush(ownership: Ownership, seq: number, events: readonly OutgoingEvent[]): Promise<CommitReply>;
  /** The record, or undefined. */
  load(runId: string): Promise<RunRecord | undefined>;
  /** Of the given runs held by this process, those asked to cancel; answers from one cheap read. */
  pendingCancels(): Promise<ReadonlyMap<string, CancelRequest>>;
}

/** What the reconciler needs to know about a run that has not ended. */
export interface OpenRunInfo {
  readonly runId: string;
  /** Absent when there is no record: it expired, or its creation never finished. */
  readonly run?: {
    readonly status: RunStatus;
    readonly kind: JobKind;
    readonly queue: string;
    readonly segment: number;
    readonly putBacks: number;
  };
  /** Milliseconds since the record last changed, or since the entry was made when there is no record. */
  readonly ageMs: number;
}

/** One live worker process, as it announces itself. */
export interface WorkerInfo {
  readonly name: string;
  readonly queues: readonly string[];
  readonly concurrency: number;
  readonly active: number;
  readonly startedAt: string;
  readonly version: string;
}

/** The fleet's view of its runs and of itself; what the reconciler and the heartbeat use. */
export interface Supervision {
  /** A page of runs that have not ended, oldest first, after an offset. An empty page means: begin again. */
  openRuns(offset: number, limit: number): Promise<readonly OpenRunInfo[]>;
  /**
   * Gives a run a new segment in a queue, so that a new job can be made for it. Answers the segment, or undefined when
   * the run has ended or is no longer at `fromSegment`: then somebody else was faster.
   */
  requeue(runId: string, fromSegment: number, queue: string): Promise<number | undefined>;
  /** Removes a run from the set of open runs. */
  forget(runId: string): Promise<void>;
  /** Adds to a counter that `doctor` shows. */
  count(counter: 'put_back' | 'given_up' | 'quarantined', by: number): Promise<void>;
  /** Announces this worker; entries that were not renewed for 15 s count as gone. */
  heartbeat(worker: WorkerInfo): Promise<void>;
  farewell(name: string): Promise<void>;
  liveWorkers(): Promise<readonly WorkerInfo[]>;
  /** Publishes the public part of the loaded agents for producers. */
  announceAgents(agents: readonly AgentView[]): Promise<void>;
}

/** A wake-up: somebody asked to cancel a run. The durable flag is what counts; the channel only makes it fast. */
export interface ControlChannel {
  /** Calls back for every cancel of any run, until disposed. */
  onCancel(listener: (runId: string, cancel: CancelRequest) => void): Disposable;
}

/** Sees every event body before it leaves; metrics are made from it. Must not throw and must not block. */
export type Observer = (event: EventBody, context: ObservedRun) => void;

interface ObservedRun {
  readonly agentId: string;
  readonly kind: string;
  /** With `run.started`: milliseconds from the acceptance of the run, or the end of its delay, to its start. */
  readonly queueWaitMs?: number;
}

/** Everything the run room asks of the outside. */
export interface Ports {
  readonly runs: RunStore;
  readonly control: ControlChannel;
  readonly clock: Clock;
  readonly log: Log;
  readonly redactor: Redactor;
  readonly observe: Observer;
}
