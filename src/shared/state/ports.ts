import type { CancelRequest, SteeringMessage } from '../contract/control.ts';
import type { Clock } from '../base/clock.ts';
import type { EventBody, EventEnvelope, PendingItem } from '../contract/event.ts';
import type { ErrorInfo, RunError } from '../base/errors.ts';
import type { Attempt, JournalEntry } from '../contract/journal.ts';
import type { PaidAttempt } from './money/ledger.ts';
import type { BudgetScope, OnExceed, RunUsage, Usage } from '../contract/money.ts';
import type { Redactor } from '../base/redact.ts';
import type { Log } from '../base/log.ts';
import type { ProviderLimits, RateLimitReport } from '../contract/limits.ts';
import type { AgentView, BreakerPolicy, Sanitization, TrustClass } from '../contract/agent/agent.ts';
import type { Sensitivity } from '../contract/message.ts';
import type { ProgressNote, ProgressQuery } from '../contract/progress.ts';
import type { RunGroup } from './run/children/children.ts';
import type { NewRun } from './run/create-runs.ts';
import type { Activity, JobKind, RunRecord, RunStatus } from '../contract/run.ts';
import type { RunResultBody } from '../contract/event.ts';
import type { TaskDefinition } from '../contract/orchestration/task-definition.ts';
import type { ThreadContext } from '../contract/thread/thread-context.ts';
import type { ThreadList, ThreadPurge, ThreadQuery } from './thread/list.ts';
import type {
  Acquired,
  DueEntry,
  DueThreads,
  Entered,
  Leaver,
  ThreadClaim,
  ThreadHold,
  ThreadRun,
} from './thread/line.ts';
import type { OnBusy } from '../contract/thread/thread.ts';
import type { Appended, ThreadPage, ThreadRange } from './thread/log.ts';
import type {
  ThreadEventBody,
  ThreadEventOrigin,
  ThreadEventsPage,
  ThreadEventsRange,
} from '../contract/thread/thread-event.ts';
import type { ThreadEntry, ThreadInfo, ThreadPatch, ThreadRef } from '../contract/thread/thread.ts';

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
  /** What the run does first: `watched` where the process works on nothing else. */
  readonly activity: Activity;
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
  readonly heard?: readonly string[];
  readonly startedAt?: string;
  readonly endedAt?: string;
  readonly deadlineAt?: string;
  readonly isCancelling?: true;
  /** Forgets a cancel request that was answered otherwise. */
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
  readonly release?: 'handed_over' | 'suspended' | 'terminal';
  /** With a terminal release: what the journal holds is kept elsewhere, so that nobody needs it any more. */
  readonly dropsJournal?: true;
}

/** `fenced`: somebody else owns the run, nothing was written, and nothing more may be. */
export type CommitReply =
  | { readonly kind: 'ok'; readonly seq: number; readonly cancel?: CancelRequest }
  | { readonly kind: 'fenced' };

/**
 * Runs, their journals and their event logs. Kept in Redis by `state/run/redis-runs.ts`, in memory by `local/stores/memory.ts`;
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
  /** There is a record that cannot be read, or the node that would have it cannot be asked. */
  readonly unread?: 'illegible' | RunError;
  /** Absent when there is no record: it expired, or its creation never finished. */
  readonly run?: {
    readonly status: RunStatus;
    readonly kind: JobKind;
    readonly queue: string;
    readonly segment: number;
    readonly putBacks: number;
    readonly tenant: string;
    readonly agentId: string;
    readonly thread?: string;
    /** What a suspended run waits for. */
    readonly pending: readonly PendingItem[];
    /** It is suspended although something came that its journal does not have, or a run that it waits for never began. */
    readonly mayGoOn: boolean;
  };
  /** Lifecycle events of it could not be told yet. */
  readonly untold: boolean;
  /** The time under which it was found. */
  readonly dueAt: string;
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
  /** Open runs whose time to be looked at has come, soonest first. Tells lifecycle events that they have left. */
  dueRuns(limit: number): Promise<readonly OpenRunInfo[]>;
  /** When these are looked at again, unless something has happened to them since. */
  lookAgain(
    runs: readonly { readonly runId: string; readonly dueAt: string; readonly nextMs: number }[],
  ): Promise<void>;
  /** How many runs are looked at within this time. */
  dueWithin(ms: number): Promise<number>;
  /** Makes sure that a page of the open runs, after an offset, is looked at. Answers the next offset; 0: begin again. */
  relist(offset: number, limit: number): Promise<number>;
  /** The same for threads that runs hold. */
  relistThreads(offset: number, limit: number): Promise<number>;
  /** How many of those are due by then. */
  threadsDueWithin(ms: number): Promise<number>;
  /**
   * Gives a run a new segment in a queue, so that a new job can be made for it. Answers the segment, or undefined when
   * the run has ended or is no longer at `fromSegment`: then somebody else was faster.
   */
  requeue(runId: string, fromSegment: number, queue: string): Promise<number | undefined>;
  /** Removes a run from the set of open runs. */
  forget(runId: string): Promise<void>;
  /** Adds to a counter that `doctor` shows. */
  count(counter: 'put_back' | 'given_up' | 'quarantined' | 'effects_failed', by: number): Promise<void>;
  /** Announces this worker; entries that were not renewed for 15 s count as gone. */
  heartbeat(worker: WorkerInfo): Promise<void>;
  /** Says that this process lives, for so many milliseconds by the clock of the store. */
  pulse(name: string, forMs: number): Promise<void>;
  /** Says which run this worker watches, or that it watches none. */
  watching(name: string, runId: string | undefined): Promise<void>;
  /** Did this run lose that worker by no doing of its own: it lives, or it died while it watched another run? */
  isExcused(name: string, runId: string): Promise<boolean>;
  farewell(name: string): Promise<void>;
  liveWorkers(): Promise<readonly WorkerInfo[]>;
  /** Publishes the public part of the loaded agents for producers. */
  announceAgents(agents: readonly AgentView[]): Promise<void>;
  /** Forgets agents that nobody has announced for seven days, and answers the queues of which that is true. */
  unannounced(): Promise<readonly string[]>;
  forgetQueue(queue: string): Promise<void>;
}

/** What ends the wait of a suspended run. */
export interface Resumption {
  /** In words, for `run.resumed`. */
  readonly summary: string;
  /** A person's decision, for the entry `decided` that every resumption adds to the journal. */
  readonly budget?: 'approve' | 'reject';
  readonly by?: string;
}

/** Times at which something is to happen to runs: one for each run. */
export interface Timers {
  /** In milliseconds since the epoch. Replaces an earlier one. */
  at(runId: string, dueMs: number): Promise<void>;
  /** Forgets that time. */
  clear(runId: string): Promise<void>;
  /**
   * Runs whose time has come, at most `limit`, each given to one caller only. One whose time is neither changed nor cleared is
   * due again a little later, because that caller may die.
   */
  due(limit: number): Promise<readonly string[]>;
}

/** Runs that wait without a worker for a time to come, at which they are woken, and the end of such waits. */
export interface Waits extends Timers {
  /**
   * Ends the wait of a suspended run: queued at its next segment, with `run.resumed` in its log and `decided` in its journal,
   * which holds every decision about its calls that came since the last one. Answers where its new job belongs, or
   * undefined when it is not suspended: somebody else was faster, or it has ended.
   */
  resume(runId: string, resumption: Resumption): Promise<Resumed | undefined>;
  /** Are there decisions about calls of this run that its journal does not have yet? They came while it was at work. */
  hasDecisions(runId: string): Promise<boolean>;
}

export interface Resumed {
  readonly queue: string;
  readonly segment: number;
  readonly kind: JobKind;
}

/**
 * Runs that work for other runs. Each is a run of its own, on whichever worker takes it; the one that it works for is suspended
 * meanwhile. Kept in Redis by `state/run/children/redis-children.ts`, in memory by `local/stores/memory-children.ts`; both pass
 * `test/contract/children.ts`. Throws `queue_unavailable` when the store cannot be reached.
 */
export interface Children {
  /**
   * Creates these runs, each at most once, and queues those that have not begun. One that has ended by now is told to the run
   * that it works for again. That one is woken by each of their ends; with a `group` when all have ended, those included that
   * begin later, or when the `first` has completed. A cancel of it keeps the later ones from beginning.
   */
  start(children: readonly NewRun[], group?: RunGroup): Promise<void>;
  /** Asks runs to stop, and those that work for them. Answers the ones that do not exist. */
  stop(runIds: readonly string[], cancel: CancelRequest): Promise<readonly string[]>;
  /** Tells the run that this one works for how it has ended, which may end its wait. Again changes nothing. */
  ended(runId: string): Promise<void>;
  /** Tells the log of a run above. `stamp` is what each of its events says. False: it has ended and wants to hear no more. */
  tell(
    stamp: Readonly<Record<string, unknown>>,
    events: readonly (EventBody & { readonly timestamp: string })[],
  ): Promise<boolean>;
  /** Takes what was told meanwhile the run was at work. For its owner. */
  takeTold(runId: string): Promise<readonly EventBody[]>;
}

/** What users say to runs that are at work. Kept in Redis and in memory; both pass `test/contract/inbox.ts`. */
export interface Inbox {
  /** All that was said and not dropped, oldest first, at most 100. */
  heard(runId: string): Promise<readonly SteeringMessage[]>;
  /** Forgets these, once the journal has them or runs of their own do. Others stay, also when it is asked again. */
  drop(runId: string, ids: Iterable<string>): Promise<void>;
}

/** Whose money an attempt is paid with. */
export interface Purse {
  readonly runId: string;
  readonly tenant: string;
  readonly agentId: string;
  readonly batch?: string;
  /** Runs above this one, whose caps hold for it, too. */
  readonly payers?: readonly { readonly runId: string; readonly capMicrocents: number; readonly onExceed: OnExceed }[];
  /** Of the run itself. Caps of batches live in the ledger; those of tenants in its settings. */
  readonly run?: {
    readonly capMicrocents: number;
    readonly onExceed: OnExceed;
    /** By the run's own record. An account that expired while the run waited begins with it. */
    readonly spentMicrocents?: number;
  };
}

/** One attempt that wants money before it is sent. Amounts are microcents. */
export interface ReserveRequest {
  readonly purse: Purse;
  /** Unique per attempt and holder, without white space. A repeat answers like the first. */
  readonly id: string;
  readonly provider: string;
  readonly model: string;
  /** The most that the call can cost, and the least that is still worth a call: the ledger gives what is left between. */
  readonly wanted: number;
  readonly least: number;
  /** A person said that this step may pass the caps: everything is counted, nothing refused. */
  readonly force: boolean;
}

/** Where an account stands. */
export interface AccountState {
  readonly scope: BudgetScope;
  readonly id: string;
  readonly capMicrocents: number;
  readonly spentMicrocents: number;
  readonly reservedMicrocents: number;
}

/**
 * - reserved: the call may cost `amount`, never more than was wanted; it is held in every account until it is settled,
 *   with what calls of this model cost beyond what was held for them before. `warnings` lists accounts that this passes
 *   although they have a cap, because their budget says `warn`
 * - busy: it would fit if calls that are under way turn out cheaper than the most they can cost. Try again, or wait
 * - exceeded: what is spent leaves no room, whatever the others cost
 */
export type Reservation =
  | { readonly kind: 'reserved'; readonly amount: number; readonly warnings: readonly AccountState[] }
  | { readonly kind: 'busy'; readonly account: AccountState }
  | { readonly kind: 'exceeded'; readonly account: AccountState; readonly onExceed: 'fail' | 'pause_for_approval' };

/** What became of a reserved, or never reserved, attempt. */
export interface Settlement {
  readonly purse: Purse;
  readonly id: string;
  readonly provider: string;
  readonly model: string;
  readonly usage: Usage;
  readonly costMicrocents: number;
  /**
   * What the answer should have cost by the estimate of its prompt. What it cost more shows how far estimates for this
   * model are off, however short the answer was. Absent where nothing was estimated.
   */
  readonly expectedMicrocents?: number;
  readonly priced: boolean;
  /** The call broke off before it reported its usage and may have been billed: what was reserved counts as spent. */
  readonly presumed: boolean;
  /** What it is the sum of, where that is not one attempt of `model`. Counted in their own rows. */
  readonly parts?: readonly PaidAttempt[];
}

/**
 * The money of runs, batches and tenants, shared by all workers. One call reaches all accounts of a purse, all or nothing.
 * Kept in Redis by `state/money/redis-ledger.ts`, in memory by `local/stores/memory-ledger.ts`; both pass `test/contract/ledger.ts`.
 * Throws `queue_unavailable` when the store cannot be reached.
 */
export interface Ledger {
  /** Does any account of this purse have a cap? Without one nothing has to be reserved. Answers without a round trip. */
  isCapped(purse: Purse): boolean;
  reserve(request: ReserveRequest): Promise<Reservation>;
  /**
   * Gives the reservation back, counts what was paid, and adds to the cost counters of the day. Once per id. Answers
   * runs that wait for this money and fit now.
   */
  settle(settlement: Settlement): Promise<readonly string[]>;
  /** Gives a reservation back whose call was never sent. */
  release(purse: Purse, id: string): Promise<readonly string[]>;
  /**
   * Counts open reservations of a run as spent: their calls may have been billed, and nobody will say. For the next
   * holder of a run after a crash, and for one that ends it.
   */
  forfeit(purse: Purse): Promise<readonly string[]>;
  /**
   * Puts a run that was suspended for money in line for the account. `amount` is the least of the request that was refused.
   * True when it fits by now: the caller has to wake it, it was not put in line. Again for one in line changes nothing, so
   * it repairs a wake-up that got lost. A run leaves its lines when it asks for money again and when it is forfeited.
   */
  await(purse: Purse, account: Pick<AccountState, 'scope' | 'id'>, amount: number): Promise<boolean>;
  /** Takes runs from the lines whose money is there by now: after a top-up, or when a wake-up got lost. */
  pump(): Promise<readonly string[]>;
}

export interface GrantRequest {
  /** Names the credential and model; the same on every worker. */
  readonly limiter: string;
  readonly limits: ProviderLimits;
  readonly runId: string;
  readonly tenant: string;
  /** Of the tenant, where tenants share a limit; 1 unless configured. */
  readonly weight: number;
  /** Tokens of the prompt, estimated, and the most that the answer may have. The governor learns what answers really have. */
  readonly promptTokens: number;
  readonly maxOutputTokens: number;
}

export interface Grant {
  readonly id: string;
  readonly limiter: string;
  readonly tenant: string;
  readonly tokens: number;
  readonly waitedMs: number;
}

export interface GrantOutcome {
  /** What the provider counted; absent when it did not say. */
  readonly usedTokens?: number;
  readonly outputTokens?: number;
  readonly report?: RateLimitReport;
  /** The provider answered 429: nobody calls it for this long. */
  readonly limited?: { readonly retryAfterMs?: number };
  /** The call was never sent. */
  readonly unused?: boolean;
}

/**
 * Keeps the fleet within what a provider allows, by credential and model: requests and tokens per minute and calls in
 * flight, fair between tenants by tokens and weight, in order within a tenant. Kept in Redis by
 * `state/limits/rate/redis-governor.ts`, in memory by `local/stores/memory-governor.ts`; both pass `test/contract/governor.ts`.
 */
export interface Governor extends AsyncDisposable {
  /**
   * Waits for a place, at most `patienceMs`. `parked`: it would take longer; the run has to let go of its worker, then
   * call `park`. A run that was woken for its turn gets it at once. Rejects when the signal is aborted.
   */
  acquire(
    request: GrantRequest,
    patienceMs: number,
    signal: AbortSignal,
  ): Promise<
    { readonly kind: 'granted'; readonly grant: Grant } | { readonly kind: 'parked'; readonly expectedMs: number }
  >;
  /** Keeps the place in line of a run that is suspended now. */
  park(request: GrantRequest): Promise<void>;
  /** Takes a run out of every line, for instance because it was cancelled. */
  leave(runId: string): Promise<void>;
  /** After each granted attempt. Corrects the estimate, gives the place in flight back, and learns. */
  settle(grant: Grant, outcome: GrantOutcome): Promise<void>;
  /** Takes parked runs whose turn has come: their place is held for them for a while. Called several times a second. */
  pump(): Promise<readonly string[]>;
}

export type Admission =
  | { readonly kind: 'closed' }
  /** The one call that finds out whether the model is back. */
  | { readonly kind: 'probe' }
  | { readonly kind: 'open'; readonly retryAfterMs: number };

/**
 * Circuit breakers by provider and model, shared by all workers: opened by consecutive failures anywhere in the fleet,
 * known everywhere within a second, closed by one successful probe after the cooldown. Kept in Redis by
 * `state/limits/redis-breakers.ts`, in memory by `local/stores/memory-breakers.ts`; both pass `test/contract/breakers.ts`.
 */
export interface Breakers extends AsyncDisposable {
  /**
   * May the model be called? No round trip while all is well. While somebody else's probe is under way it waits for what
   * that finds, at most `patienceMs`.
   */
  admit(target: string, patienceMs: number, signal: AbortSignal): Promise<Admission>;
  /** `neutral`: the call says nothing about the health of the model; a probe is given back. */
  report(
    target: string,
    outcome: 'success' | 'failure' | 'neutral',
    admission: Admission,
    policy: Pick<BreakerPolicy, 'failureThreshold' | 'cooldownMs'>,
  ): Promise<void>;
  /** As this process knows it, for metrics. */
  states(): ReadonlyMap<string, 'closed' | 'open' | 'half_open'>;
}

/**
 * Generated files of a tenant, named by their SHA-256 and kept as long as results. Kept in Redis by
 * `state/results/redis-media.ts`, in memory by `local/stores/memory-media.ts`; both pass `test/contract/media-store.ts`.
 */
export interface MediaStore {
  /**
   * Keeps the bytes and answers their SHA-256 in hex. The same bytes again cost nothing but a longer life. Throws
   * `payload_too_large` above 32 MiB and `queue_unavailable` when the store cannot be reached.
   */
  put(tenant: string, bytes: Uint8Array, mediaType: string): Promise<string>;
}

/** What is known about a kept result beside its text. */
export interface ArtifactInfo {
  readonly toolName: string;
  readonly trust: TrustClass;
  readonly sensitivity: Sensitivity;
  /** What is done to it before a model reads it. Absent: what its trust class asks for. */
  readonly inboundSanitization?: Sanitization;
  readonly totalBytes: number;
}

/**
 * Results that were too large for a model, kept for the run that made them and readable from every worker. Kept in Redis,
 * in a shared folder or in an S3-compatible store; all pass `test/contract/artifacts.ts`, and so does the memory form.
 * Throws `payload_too_large` above the store's bound and `queue_unavailable` when it cannot be reached.
 */
export interface Artifacts {
  /** Keeps a body under a name of this run. The same name again replaces it. Names are 1 to 64 of A-Z a-z 0-9 _ - */
  put(runId: string, name: string, body: Uint8Array, info: Omit<ArtifactInfo, 'totalBytes'>): Promise<void>;
  /** At most `length` bytes from `offset`; undefined when the run has nothing of this name. */
  read(
    runId: string,
    name: string,
    offset: number,
    length: number,
  ): Promise<{ readonly bytes: Uint8Array; readonly info: ArtifactInfo } | undefined>;
  /** Forgets everything of a run. What a run leaves behind by a crash goes by itself after 7 days. */
  drop(runId: string): Promise<void>;
}

/** A note to be written. */
export interface ProgressDraft {
  readonly runId: string;
  readonly tenant: string;
  readonly role: string;
  /** Default: the next of this run and role. */
  readonly seq?: number;
  readonly text: string;
  readonly sensitivity: Sensitivity;
  readonly tags: readonly string[];
  /** The same key again writes nothing, and answers the note that there is. */
  readonly key: string;
}

/** A note with its text, which is absent when it cannot be read here. */
export interface ProgressEntry {
  readonly note: ProgressNote;
  readonly text?: string;
}

/**
 * Notes that agents leave for later sessions and other processes. Numbers and what is known of each are in Redis; the
 * texts are there too, or in the folder of kept results. All forms pass `test/contract/progress-notes.ts`.
 */
export interface ProgressNotes {
  /**
   * Numbers are unique for a run and role, and no note is ever replaced. Throws `validation` for a draft of a wrong form
   * and `progress_write_failed` for everything else, a number that is taken included.
   */
  write(draft: ProgressDraft): Promise<ProgressNote>;
  /** Notes of a run of this tenant, by number and then by role. Throws `validation`, `queue_unavailable`. */
  read(tenant: string, runId: string, query: ProgressQuery): Promise<readonly ProgressEntry[]>;
}

/**
 * Conversations that last longer than a run, and the line of runs that want to continue one: one at a time, in the order in
 * which they came. A run holds its thread from the moment that it is its turn until it leaves, also while it is suspended; it
 * holds no worker for that. Nothing of a thread expires. Kept in Redis by `state/thread/redis-threads.ts`, in memory by
 * `local/stores/memory-threads.ts`; both pass `test/contract/threads.ts`. Every method throws `queue_unavailable` when the store
 * cannot be reached; calls that change something may be made again then.
 */
export interface Threads {
  /**
   * Gives a run its place, and makes the thread when it is the first run of it. Again for the same run changes nothing and
   * answers how it stands now. Default of `onBusy`: `queue`.
   */
  enter(run: ThreadRun & { readonly onBusy?: OnBusy }): Promise<Entered>;
  /** Takes the thread up, at every claim of the run. One that has no place gets one, at the end. Nothing changes for an earlier claim than the last one. */
  acquire(run: ThreadClaim): Promise<Acquired>;
  /**
   * Writes entries and fields of the manifest, all or nothing. `op` is unique per write of a turn: a repeat by any worker
   * changes nothing while the run holds the thread. A user's message is written once per run, or per `key` where it has one.
   */
  append(hold: ThreadHold, op: string, entries: readonly ThreadEntry[], patch?: ThreadPatch): Promise<Appended>;
  /** The holder waits for something outside, until it takes the thread up again. It keeps its turn. */
  suspend(hold: ThreadHold): Promise<'ok' | 'fenced'>;
  /**
   * Takes a run out of the thread, whether it holds it, waits, or was never there. `next` holds the thread from now on and
   * has to be woken; asked again it is answered until it has taken the thread up. `epoch`: the last claim of the run when it was
   * over; nothing changes for a run that has come back with a later one.
   */
  leave(tenant: string, threadId: string, runId: string, epoch?: number): Promise<{ readonly next?: string }>;
  /** The same, and queues the run whose turn it is now. */
  passOn(tenant: string, threadId: string, leaver: Leaver): Promise<void>;
  /** What a model is given of the thread; for the run that holds it, as it was when its turn began. Throws `not_found`. */
  context(tenant: string, threadId: string, holder?: string): Promise<ThreadContext>;
  /** Throws `not_found`. */
  get(tenant: string, threadId: string): Promise<ThreadInfo>;
  /** A page of the log as it was written. Throws `not_found`. */
  read(tenant: string, threadId: string, range: ThreadRange): Promise<ThreadPage>;
  /** Last changed first. Throws `validation` for a cursor of a wrong form. */
  list(tenant: string, query: ThreadQuery): Promise<ThreadList>;
  /** Changes fields of the manifest whoever holds the thread. Throws `not_found`. */
  update(tenant: string, threadId: string, patch: ThreadPatch): Promise<void>;
  /**
   * Tells what followed a run. The newest 1,000 events are kept, outside of the log; nothing is told to a thread that is gone.
   * `op` is unique per event: a repeat right after it changes nothing.
   */
  tell(thread: ThreadRef, origin: ThreadEventOrigin, op: string, body: ThreadEventBody): Promise<void>;
  /** Throws `not_found`. */
  events(thread: ThreadRef, range: ThreadEventsRange): Promise<ThreadEventsPage>;
  /** Deletes a thread. Throws `not_found`, and `concurrent_run` while a run holds it or waits for it. */
  remove(tenant: string, threadId: string): Promise<void>;
  /** Deletes the threads of a tenant, some with each call, until an answer has no cursor. Threads in use are kept. */
  purge(tenant: string, cursor?: string): Promise<ThreadPurge>;
  /** Threads of all tenants that runs hold and that are due to be looked at: 15 seconds after the last entry, or as `lookAgain` said. */
  due(limit: number): Promise<DueThreads>;
  /** `nextMs`: when each is due again, in milliseconds since the epoch. An entry since then counts more. */
  lookAgain(threads: readonly (DueEntry & { readonly nextMs: number })[]): Promise<void>;
}

/**
 * The task of this id, or undefined when there is none. Asked whenever a worker takes up a run that works on one; every
 * worker has to answer the same.
 */
export type LoadTask = (taskId: string) => TaskDefinition | undefined | Promise<TaskDefinition | undefined>;

/** A message with its vector. */
export interface EmbeddedMessage {
  readonly tenant: string;
  readonly threadId: string;
  readonly agentId: string;
  readonly runId: string;
  /** The number of its entry in the log of the thread. */
  readonly seq: number;
  readonly role: 'user' | 'assistant';
  readonly text: string;
  readonly vector: readonly number[];
}

/** Makes vectors of what was said in threads, and keeps them: the operator's own. A worker without one makes none. */
export interface Embedder {
  /** Of the provider, for limits, breakers and costs. */
  readonly id: string;
  readonly model: string;
  /** Absent: the price is not known. */
  readonly microcentsPerMillionTokens?: number;
  readonly limits?: ProviderLimits;
  /** One vector for each text, in their order. One call on the wire: it is paid for and counted as one. */
  embed(
    texts: readonly string[],
    signal: AbortSignal,
  ): Promise<{ readonly vectors: readonly (readonly number[])[]; readonly inputTokens?: number }>;
  /** Keeps them. The same messages may come again. */
  keep(messages: readonly EmbeddedMessage[], signal: AbortSignal): Promise<void>;
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
  readonly waits: Waits;
  /** When runs are to end at the latest. */
  readonly deadlines: Timers;
  readonly children: Children;
  readonly threads: Threads;
  readonly inbox: Inbox;
  readonly ledger: Ledger;
  readonly governor: Governor;
  readonly breakers: Breakers;
  readonly control: ControlChannel;
  readonly media: MediaStore;
  readonly clock: Clock;
  readonly log: Log;
  readonly redactor: Redactor;
  readonly observe: Observer;
}
