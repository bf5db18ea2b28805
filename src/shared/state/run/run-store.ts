import type { ErrorInfo } from '../../base/errors.ts';
import type { CancelRequest } from '../../contract/control.ts';
import type { EventBody, EventEnvelope, PendingItem, RunResultBody } from '../../contract/event.ts';
import type { Attempt, JournalEntry } from '../../contract/journal/journal.ts';
import type { RunUsage } from '../../contract/money.ts';
import type { Activity, RunRecord, RunStatus } from '../../contract/run.ts';

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
  /** Crashes, and blame, from which on the run is refused here: it belongs to quarantine, or nowhere. */
  readonly crashLimit: number;
  readonly blameLimit: number;
  /** A worker that lives, or died while it watched another run. If this run lost that one, it is not to blame. */
  readonly excusedWorker?: string | undefined;
  /** What the run does first: `watched` when the process has no other run. */
  readonly activity: Activity;
}

/** What claiming a run answers. Only `claimed` gives the right to write. */
export type Claim =
  | {
      readonly kind: 'claimed';
      readonly record: RunRecord;
      readonly entries: readonly JournalEntry[];
      readonly seq: number;
      /** No processor call has claimed this run before. */
      readonly first: boolean;
      /** The previous owner did not release the run: it crashed or lost its lock. */
      readonly unclean: boolean;
      readonly previousWorker?: string | undefined;
      readonly cancel?: CancelRequest | undefined;
    }
  | { readonly kind: 'crashed_too_often'; readonly crashes: number }
  | { readonly kind: 'terminal'; readonly status: RunStatus }
  | { readonly kind: 'gone' }
  | { readonly kind: 'stale' };

/** Fields of the record that a commit may change. */
export interface RecordPatch {
  readonly status?: RunStatus;
  readonly steps?: number;
  readonly toolCalls?: number;
  readonly usage?: RunUsage;
  readonly costMicrocents?: number;
  readonly childCostMicrocents?: number;
  readonly workedMs?: number;
  readonly attempts?: readonly Attempt[];
  readonly pending?: readonly PendingItem[];
  readonly result?: RunResultBody;
  readonly error?: ErrorInfo;
  /** See the record. */
  readonly inboxRead?: readonly string[];
  readonly startedAt?: string;
  readonly endedAt?: string;
  readonly deadlineAt?: string;
  readonly isCancelling?: true;
  /** Removes a cancel request that did not end the run. */
  readonly cancel?: '';
  readonly activity?: Activity;
}

/**
 * One durable write: new journal entries, new events and changed fields, all or nothing. `release` gives the ownership
 * up in the same step: `handed_over` (another processor call continues), `suspended`, or `terminal` (sets the
 * retention; nothing can be written afterwards). A release, and an entry of a call that finished here, set the crashes to 0.
 */
export interface Commit {
  /** Unique per commit of an owner. A repeat of the same id changes nothing and answers like the first. */
  readonly op: string;
  /** The last number given so far. The first event of this commit gets the next one. */
  readonly seq: number;
  readonly entries: readonly JournalEntry[];
  readonly events: readonly OutgoingEvent[];
  readonly patch?: RecordPatch;
  readonly release?: 'handed_over' | 'suspended' | 'terminal' | undefined;
  /** With a terminal release: the journal is deleted, because its content is kept elsewhere. */
  readonly dropsJournal?: boolean;
}

/** `fenced`: another processor call owns the run; nothing was written, and nothing more may be. */
export type CommitReply =
  | { readonly kind: 'ok'; readonly seq: number; readonly cancel?: CancelRequest | undefined }
  | { readonly kind: 'fenced' };

/**
 * Runs, their journals and their event logs. Kept in Redis by `state/run/runs.ts`, in memory by `local/stores/in-memory.ts`;
 * both pass `test/contract/run-store.ts`. Throws `queue_unavailable` when the store cannot be reached.
 */
export interface RunStore {
  /**
   * Claims the run: new owner, status running, and in the same step its events: `opening` for the first claim, `recovering`
   * otherwise. Events that its children relayed since it was suspended enter its log before these. Because a claim always adds
   * an event, a stale writer's next event number is already taken: that is what fences `flush`.
   */
  claim(request: ClaimRequest, opening: readonly OutgoingEvent[], recovering: readonly OutgoingEvent[]): Promise<Claim>;
  /** Writes under the ownership. One call at a time per run. */
  commit(ownership: Ownership, commit: Commit): Promise<CommitReply>;
  /**
   * Adds events alone, after number `seq`. Cheaper than a commit: the flushes of several runs within one tick are sent together
   * and no field is read. A number that is already taken answers `fenced`, unless it is this very flush sent twice.
   */
  flush(ownership: Ownership, seq: number, events: readonly OutgoingEvent[]): Promise<CommitReply>;
  /** The record, or undefined. */
  load(runId: string): Promise<RunRecord | undefined>;
  /** The runs with an open cancel request, from one cheap read. */
  pendingCancels(): Promise<ReadonlyMap<string, CancelRequest>>;
}
