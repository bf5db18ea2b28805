import { defined } from '../../../shared/base/collections.ts';
import type { Clock } from '../../../shared/base/clock.ts';
import { threadContext, type ThreadContext } from '../../../shared/contract/thread/thread-context.ts';
import {
  leftMs,
  lookAfterMs,
  maxLeft,
  type AcquiredLock,
  type DueThread,
  type Entered,
  type EndedRun,
  type ThreadLock,
} from '../../../shared/state/thread/lock.ts';
import {
  type OnBusy,
  onceKey,
  threadVersion,
  type NumberedEntry,
  type ThreadEntry,
  type ThreadInfo,
  type ThreadManifest,
  type ThreadPatch,
  maxThreadEvents,
  threadEventVersion,
  type ThreadEvent,
  type ThreadEventBody,
  type ThreadEventOrigin,
} from '../../../shared/contract/thread/thread.ts';
import type { Appended } from '../../../shared/state/thread/log.ts';

/** Who writes. */
type Writer = Pick<ThreadLock, 'runId' | 'fence'>;

/** The run whose turn it is. What it writes begins after entry `from`. */
interface LockOwner {
  readonly runId: string;
  readonly from: number;
  readonly summaryBefore: number;
  /** The run that released the lock to this one, until this one acquires it. */
  releasedBy: string | undefined;
  suspended: boolean;
  interrupted: boolean;
  rollback: boolean;
  /** It has written how its turn ended: after which entry, and with which session in the manifest. */
  ended?: { readonly from: number; readonly session: ThreadManifest['session'] } | undefined;
}

type Position = Exclude<Entered, { kind: 'left' }>;

/** One thread in memory, by the rules of the scripts `thread-*.lua`. It may outlive its contents, because it remembers which runs have left. */
export class InMemoryThread {
  readonly tenant: string;
  readonly threadId: string;
  readonly #clock: Clock;
  readonly #left = new Map<string, number>();
  #manifest: ThreadManifest | undefined;
  #dueMs = 0;
  #lockOwner: LockOwner | undefined;
  #queue: string[] = [];
  #fence = 0;
  /** Writes of the lock owner, with the last number after each. */
  #ops = new Map<string, number>();
  #seq = 0;
  #summarySeq = 0;
  #entries: NumberedEntry[] = [];
  readonly #once = new Set<string>();
  readonly #events: ThreadEvent[] = [];
  #lastOp: string | undefined;
  /** The last claim that acquired it. */
  #acquired: { readonly runId: string; readonly epoch: number } | undefined;
  /** The last claim of each run that has come to acquire it and has not left. */
  readonly #claims = new Map<string, number>();
  changedAtMs = 0;

  constructor(tenant: string, threadId: string, clock: Clock) {
    this.tenant = tenant;
    this.threadId = threadId;
    this.#clock = clock;
  }

  get exists(): boolean {
    return this.#manifest !== undefined;
  }

  /** Only of a thread that exists. */
  get manifest(): ThreadManifest {
    return this.#manifest as ThreadManifest;
  }

  get events(): readonly ThreadEvent[] {
    return this.#events;
  }

  get entries(): readonly NumberedEntry[] {
    return this.#entries;
  }

  /** The lock owner first, then those who wait. */
  get runs(): readonly string[] {
    return this.#lockOwner ? [this.#lockOwner.runId, ...this.#queue] : [];
  }

  get info(): ThreadInfo {
    const { runId, suspended } = this.#lockOwner ?? { suspended: false };
    const waiting = this.#queue.length;
    const suspendedBy = suspended ? runId : undefined;
    return { ...this.manifest, ...defined({ lockOwner: runId, suspendedBy }), waiting, lastSeq: this.#seq };
  }

  /** For the lock owner: as it was when its turn began. */
  context(lockOwner: string | undefined): ThreadContext {
    const owner = this.#lockOwner?.runId === lockOwner ? this.#lockOwner : undefined;
    const lastNumber = owner?.from ?? this.#seq;
    const summarySeq = owner?.summaryBefore ?? this.#summarySeq;
    const summary = this.#entries.find(({ seq }) => seq === summarySeq);
    const after = summary?.entry.t === 'summary' ? summary.entry.upTo : 0;
    const entries = this.#entries.filter(({ seq }) => seq > after && seq <= lastNumber);
    return threadContext(this.manifest, summary ? [summary, ...entries] : entries, lastNumber);
  }

  due(): DueThread | undefined {
    if (!this.#lockOwner || this.#dueMs > this.#clock.now()) return undefined;
    const { runId, suspended, interrupted } = this.#lockOwner;
    const [next] = this.#queue;
    const { tenant, threadId } = this;
    return { tenant, threadId, lockOwner: runId, next, suspended, interrupted, dueAt: String(this.#dueMs) };
  }

  lookAgain(dueAt: string, nextMs: number): void {
    if (dueAt === String(this.#dueMs)) this.#dueMs = nextMs;
  }

  enter(runId: string, agentId: string, onBusy: OnBusy): Entered {
    this.#dueMs = this.#clock.now() + lookAfterMs;
    if (this.#isKnownToHaveLeft(runId)) return { kind: 'left' };
    return this.#position(runId, agentId, onBusy);
  }

  acquire(runId: string, agentId: string, epoch: number): AcquiredLock {
    this.#dueMs = this.#clock.now() + lookAfterMs;
    const before = this.#isKnownToHaveLeft(runId) && this.#acquired?.runId === runId ? this.#acquired.epoch : 0;
    if (Math.max(before, this.#claims.get(runId) ?? 0) > epoch) return { kind: 'stale' };
    const position = this.#position(runId, agentId, 'queue');
    if (position.kind === 'other_agent') return position;
    this.#claims.set(runId, epoch);
    if (position.kind === 'waiting') return { kind: 'waiting', lockOwner: position.lockOwner, ahead: position.ahead };
    const lockOwner = this.#lockOwner as LockOwner;
    this.#acquired = { runId, epoch };
    lockOwner.suspended = false;
    lockOwner.releasedBy = undefined;
    if (lockOwner.ended) this.#reopen(lockOwner, lockOwner.ended);
    this.#left.delete(runId);
    return { kind: 'acquired', fence: ++this.#fence, manifest: this.manifest, rolledBack: lockOwner.rollback };
  }

  #position(runId: string, agentId: string, onBusy: OnBusy): Position {
    this.#manifest ??= this.#created(agentId);
    if (this.#manifest.agentId !== agentId) return { kind: 'other_agent', agentId: this.#manifest.agentId };
    this.#lockOwner ??= this.#give(runId);
    const lockOwner = this.#lockOwner;
    if (lockOwner.runId === runId) return { kind: 'turn' };
    const ahead = onBusy === 'interrupt' || onBusy === 'rollback';
    if (!this.#queue.includes(runId)) {
      if (onBusy === 'reject')
        return { kind: lockOwner.suspended ? 'refused_suspended' : 'refused_busy', lockOwner: lockOwner.runId };
      if (ahead) {
        this.#queue.unshift(runId);
        lockOwner.interrupted ||= !lockOwner.ended;
        lockOwner.rollback ||= !lockOwner.ended && onBusy === 'rollback';
      } else this.#queue.push(runId);
    }
    return {
      kind: 'waiting',
      lockOwner: lockOwner.runId,
      ahead: this.#queue.indexOf(runId) + 1,
      cancel: ahead && lockOwner.interrupted,
    };
  }

  #created(agentId: string): ThreadManifest {
    this.changedAtMs = this.#clock.now();
    const at = new Date(this.changedAtMs).toISOString();
    return { v: threadVersion, threadId: this.threadId, agentId, createdAt: at, updatedAt: at };
  }

  #give(runId: string, releasedBy?: string): LockOwner {
    this.#ops.clear();
    return {
      runId,
      from: this.#seq,
      summaryBefore: this.#summarySeq,
      releasedBy,
      suspended: false,
      interrupted: false,
      rollback: false,
    };
  }

  append({ runId, fence }: Writer, op: string, entries: readonly ThreadEntry[], patch: ThreadPatch): Appended {
    const before = this.#ops.get(op);
    if (before !== undefined) return { kind: 'ok', seq: before, rolledBack: false };
    const lockOwner = this.#lockOwner;
    if (lockOwner?.runId !== runId || fence !== this.#fence) return { kind: 'fenced' };
    if (lockOwner.rollback) {
      this.#rollBack(lockOwner);
      return { kind: 'ok', seq: this.#seq, rolledBack: true };
    }
    if (entries.some(({ t }) => t === 'result')) lockOwner.ended = { from: this.#seq, session: this.manifest.session };
    for (const entry of entries) {
      const key = onceKey(entry);
      if (key !== undefined && this.#once.has(key)) continue;
      if (key !== undefined) this.#once.add(key);
      this.#entries.push({ seq: ++this.#seq, entry });
      if (entry.t === 'summary') this.#summarySeq = this.#seq;
    }
    this.#ops.set(op, this.#seq);
    this.change(patch);
    return { kind: 'ok', seq: this.#seq, rolledBack: false };
  }

  change(patch: ThreadPatch): void {
    const { session, title, taskId, ...fixed } = this.manifest;
    const next = { session, title, taskId, ...defined(patch) };
    this.changedAtMs = this.#clock.now();
    this.#manifest = {
      ...fixed,
      ...defined({
        session: next.session || undefined,
        title: next.title || undefined,
        taskId: next.taskId || undefined,
      }),
      updatedAt: new Date(this.changedAtMs).toISOString(),
    };
  }

  emit({ agentId, runId }: ThreadEventOrigin, op: string, body: ThreadEventBody): void {
    if (!this.#manifest || op === this.#lastOp) return;
    this.#lastOp = op;
    const sequenceNumber = (this.#events.at(-1)?.sequenceNumber ?? 0) + 1;
    const timestamp = new Date(this.#clock.now()).toISOString();
    const threadId = this.threadId;
    this.#events.push({ sequenceNumber, v: threadEventVersion, timestamp, threadId, agentId, runId, ...body });
    if (this.#events.length > maxThreadEvents) this.#events.shift();
  }

  suspend({ runId, fence }: Writer): 'ok' | 'fenced' {
    if (this.#lockOwner?.runId !== runId || fence !== this.#fence) return 'fenced';
    this.#lockOwner.suspended = true;
    return 'ok';
  }

  leave({ runId, epoch = Infinity }: EndedRun): { readonly next?: string } {
    if ((this.#claims.get(runId) ?? 0) > epoch) return {};
    this.#claims.delete(runId);
    this.#remember(runId);
    const lockOwner = this.#lockOwner;
    if (lockOwner?.runId !== runId) {
      this.#queue = this.#queue.filter((waiting) => waiting !== runId);
      return lockOwner?.releasedBy === runId ? { next: lockOwner.runId } : {};
    }
    if (lockOwner.rollback) this.#rollBack(lockOwner);
    const next = this.#queue.shift();
    this.#lockOwner = next === undefined ? undefined : this.#give(next, runId);
    return next === undefined ? {} : { next };
  }

  #isKnownToHaveLeft(runId: string): boolean {
    const leftAt = this.#left.get(runId);
    return leftAt !== undefined && leftAt > this.#clock.now() - leftMs;
  }

  #remember(runId: string): void {
    const now = this.#clock.now();
    this.#left.delete(runId);
    this.#left.set(runId, now);
    for (const [oldest, at] of this.#left) {
      if (this.#left.size <= maxLeft && at > now - leftMs) break;
      this.#left.delete(oldest);
    }
  }

  /** Takes back the end of a turn that a worker wrote before it was lost, and before the run ended. */
  #reopen(lockOwner: LockOwner, { from, session }: NonNullable<LockOwner['ended']>): void {
    this.#rollBack({ ...lockOwner, from });
    const { session: _, ...manifest } = this.manifest;
    this.#manifest = { ...manifest, ...defined({ session }) };
    this.#ops.clear();
    lockOwner.ended = undefined;
  }

  #rollBack({ from, summaryBefore }: LockOwner): void {
    const isOwn = ({ seq }: NumberedEntry) => seq > from;
    for (const { entry } of this.#entries.filter(isOwn)) this.#once.delete(onceKey(entry) ?? '');
    this.#entries = this.#entries.filter((entry) => !isOwn(entry));
    this.#summarySeq = summaryBefore;
  }
}
