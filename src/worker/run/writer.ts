import type { CancelRequest } from '../../shared/contract/control.ts';
import { RunError } from '../../shared/base/errors.ts';
import { isDelta, isTerminal, type EventBody } from '../../shared/contract/event.ts';
import { newNonce } from '../../shared/base/ids.ts';
import { jsonText } from '../../shared/base/json.ts';
import type { JournalEntry } from '../../shared/contract/journal/journal.ts';
import { boundedEvents, maxPieceChars } from './bounded-events.ts';
import type { Ports } from './ports.ts';
import type { Commit, CommitReply, Ownership, RecordPatch } from '../../shared/state/run/commit.ts';
import type { OutgoingEvent } from '../../shared/state/script.ts';

/** The fields of every event of a run beside its body. */
export type EventContext = Omit<OutgoingEvent, 'timestamp' | 'type'> & { readonly runId: string };

/** What a commit writes beside the emitted events. */
export interface Write {
  readonly entries?: readonly JournalEntry[];
  readonly patch?: RecordPatch;
  readonly release?: Commit['release'];
  readonly dropsJournal?: boolean;
  readonly store?: Commit['store'];
}

export interface WriterOptions {
  readonly ownership: Ownership;
  readonly context: EventContext;
  readonly seq: number;
  readonly ports: Pick<Ports, 'runs' | 'clock' | 'observe' | 'log'>;
  readonly flushTimer: FlushTimer;
  readonly kind: string;
  /** Of the entries that are there. */
  readonly journalBytes: number;
  /** Called after a commit with how large the journal is now, in bytes of JSON. */
  readonly onJournal: (bytes: number) => void;
  /** Goes into the record with every commit. */
  readonly workedMs: () => number;
  /** Called with events that are in the log now, and the number of the first. */
  readonly onWritten?: (events: readonly OutgoingEvent[], firstSequence: number) => void;
  /** Called once another worker owns the run; nothing may be written from then on. */
  onFenced(): void;
  /** Called when a reply of the store has a cancel request. */
  onCancel(cancel: CancelRequest): void;
}

const commitTries = 4;
/** A refused flush is repeated after this, then after ever longer waits. */
const firstRetryMs = 25;
const longestRetryMs = 1_000;

/**
 * Writes everything that a run writes. Stamps bodies, merges text deltas that fall into one window, and keeps at most one write in
 * flight while it gathers the next: a slow Redis makes batches larger, not the run slower. One write at a time is also
 * what makes event numbers a fence (see `RunStore.flush`).
 */
export class RunWriter {
  readonly #options: WriterOptions;
  #seq: number;
  #pending: OutgoingEvent[] = [];
  #kept: readonly JournalEntry[] = [];
  /** From this index on pending events wait for a commit. */
  #waitFrom = Number.POSITIVE_INFINITY;
  /** A flush whose reply was lost: it is sent again, unchanged, before anything else. */
  #unsent: readonly OutgoingEvent[] | undefined;
  #inFlight: Promise<void> = Promise.resolve();
  #busy = false;
  #commitsWaiting = 0;
  /** The commit that waits for the write in flight: later ones join it. */
  #gathering: { readonly batch: { write: Write }; readonly done: Promise<void> } | undefined;
  #scheduled = false;
  #urgentDelta = true;
  #refusals = 0;
  #closed = false;
  #ended = false;
  #agentId: string | undefined;
  #journalBytes: number;

  constructor(options: WriterOptions) {
    this.#options = options;
    this.#journalBytes = options.journalBytes;
    this.#seq = options.seq;
  }

  /** Takes an event. Returns at once; it is written within the flush window, or with the next commit. */
  emit(body: EventBody): void {
    // The terminal event waits for its commit, and no event may follow it: a cancel may come just then.
    if (this.#closed || this.#ended) return;
    this.#ended = isTerminal(body);
    const { ports, context, kind } = this.#options;
    ports.observe(body, { agentId: this.#agentId ?? context.agentId ?? '', kind });
    if (body.type === 'step.start') this.#urgentDelta = true;
    for (const bounded of boundedEvents(body)) this.#take(bounded);
  }

  #take(body: EventBody): void {
    const { flushTimer } = this.#options;
    flushTimer.waits(this);
    if (!isDelta(body.type)) {
      this.#pending.push(this.#stamp(body));
      this.#schedule();
      return;
    }
    if (!(flushTimer.windowMs > 0 && this.#mergeDelta(body))) this.#pending.push(this.#stamp(body));
    if (this.#urgentDelta || flushTimer.windowMs === 0) {
      this.#urgentDelta = false;
      queueMicrotask(() => this.flush());
    } else {
      this.#schedule();
    }
  }

  /** The same for an event that must not be in the log before the next commit is. Later ones wait with it. */
  emitWithCommit(body: EventBody): void {
    this.#waitFrom = Math.min(this.#waitFrom, this.#pending.length);
    this.emit(body);
  }

  /**
   * Writes entries, changed fields and everything emitted so far, all or nothing. A commit joins another one that still waits:
   * its events were emitted before, and must not be written without their entries. Throws `lock_lost` when fenced. A commit
   * that fails closes the writer, for the same reason.
   */
  async commit(write: Write): Promise<void> {
    const waiting = this.#gathering;
    if (waiting && !waiting.batch.write.release) {
      waiting.batch.write = together(waiting.batch.write, write);
      return await waiting.done;
    }
    const batch = { write };
    const previous = this.#inFlight;
    this.#commitsWaiting += 1;
    const done = previous
      .then(() => this.#commitNow(batch))
      .catch((error: unknown) => {
        this.close();
        throw error;
      })
      .finally(() => (this.#commitsWaiting -= 1));
    this.#gathering = { batch, done };
    this.#inFlight = done.catch(() => {});
    await done;
  }

  /** Nothing is written from now on, also not what was emitted before. */
  close(): void {
    this.#closed = true;
    this.#pending = [];
    this.#unsent = undefined;
    this.#options.flushTimer.rests(this);
  }

  /** Later events have this agent. */
  setActiveAgent(agentId: string): void {
    this.#agentId = agentId;
  }

  /** Has the next commit write these entries first, together with their events. */
  writeWithCommit(entries: readonly JournalEntry[]): void {
    this.#waitFrom = 0;
    this.#kept = [...this.#kept, ...entries];
  }

  /** Writes what is pending, unless a write is in flight; then the next one takes it. Never throws. */
  flush(): void {
    this.#scheduled = false;
    if (this.#busy || this.#closed || (this.#pending.length === 0 && !this.#unsent)) return;
    this.#inFlight = this.#inFlight.then(() => this.#flushNow());
  }

  async #flushNow(): Promise<void> {
    if (this.#closed) return;
    // A waiting commit takes what was emitted before it: an event must not be written ahead of its entry.
    const events = this.#unsent ?? (this.#commitsWaiting > 0 ? [] : this.#pending.slice(0, this.#waitFrom));
    if (events.length === 0) return;
    if (!this.#unsent) {
      this.#pending = this.#pending.slice(events.length);
      this.#waitFrom -= events.length;
    }
    this.#unsent = events;
    this.#busy = true;
    try {
      const { ownership, ports } = this.#options;
      this.#accept(await ports.runs.flush(ownership, this.#seq, events), events);
      this.#unsent = undefined;
      this.#refusals = 0;
    } catch (err) {
      // A failing flush never fails a run: the next write sends the same events again. It is logged once.
      const { ports } = this.#options;
      if (this.#refusals === 0) ports.log.warn({ err }, 'events are waiting for the store');
      this.#refusals += 1;
    } finally {
      this.#busy = false;
    }
    if (this.#unsent) this.#retryLater();
    else if (this.#mayFlush()) this.#schedule();
  }

  async #commitNow(batch: { readonly write: Write }): Promise<void> {
    const { ownership, ports } = this.#options;
    for (let tries = 0; this.#unsent && tries < commitTries; tries++) {
      await this.#flushNow();
      if (this.#unsent) await ports.clock.sleep(100 * 2 ** tries);
    }
    if (this.#gathering?.batch === batch) this.#gathering = undefined;
    if (this.#closed) throw new RunError('lock_lost', 'another worker owns this run');
    if (this.#unsent) throw new RunError('queue_unavailable', 'the event log does not take writes');
    const { write } = batch;
    const events = this.#pending;
    this.#pending = [];
    this.#waitFrom = Number.POSITIVE_INFINITY;
    const kept = this.#kept;
    this.#kept = [];
    const commit: Commit = {
      op: newNonce(),
      seq: this.#seq,
      entries: [...kept, ...(write.entries ?? [])],
      events,
      patch: { ...write.patch, workedMs: this.#options.workedMs() },
      dropsJournal: write.dropsJournal === true,
      store: write.store,
      release: write.release,
    };
    this.#busy = true;
    try {
      this.#accept(await this.#send(ownership, commit), events);
    } finally {
      this.#busy = false;
    }
    if (this.#isFenced()) throw new RunError('lock_lost', 'another worker owns this run');
    this.#journalBytes += bytesOf(commit.entries);
    this.#options.onJournal(this.#journalBytes);
    if (write.release) this.#closed = true;
    else if (this.#mayFlush()) this.#schedule();
  }

  /** The same operation id each time: a commit whose reply was lost is applied once. */
  async #send(ownership: Ownership, commit: Commit): Promise<CommitReply> {
    const { runs, clock } = this.#options.ports;
    for (let tries = 1; ; tries++) {
      try {
        return await runs.commit(ownership, commit);
      } catch (error) {
        if (tries >= commitTries || !(error instanceof RunError && error.retryable)) throw error;
        await clock.sleep(100 * 2 ** tries);
      }
    }
  }

  #accept(reply: CommitReply, events: readonly OutgoingEvent[]): void {
    if (reply.kind === 'fenced') {
      this.close();
      this.#options.onFenced();
      return;
    }
    const { flushTimer } = this.#options;
    flushTimer.rests(this);
    if (this.#pending.length > 0) flushTimer.waits(this);
    this.#options.onWritten?.(events, this.#seq + 1);
    this.#seq += events.length;
    if (reply.cancel) this.#options.onCancel(reply.cancel);
  }

  #mayFlush(): boolean {
    return this.#pending.length > 0 && this.#waitFrom > 0;
  }

  #isFenced(): boolean {
    return this.#closed;
  }

  #schedule(): void {
    if (this.#scheduled || this.#closed) return;
    this.#scheduled = true;
    this.#options.flushTimer.schedule(this);
  }

  /** Backs off, so that not every run asks a full or unreachable store in every flush window. */
  #retryLater(): void {
    if (this.#scheduled || this.#closed) return;
    this.#scheduled = true;
    const waitMs = Math.min(firstRetryMs * 2 ** this.#refusals, longestRetryMs);
    void this.#options.ports.clock.sleep(waitMs).then(() => this.flush());
  }

  #stamp(body: EventBody): OutgoingEvent {
    const { context, ports } = this.#options;
    const agent = this.#agentId === undefined ? {} : { agentId: this.#agentId };
    return { timestamp: new Date(ports.clock.now()).toISOString(), ...context, ...agent, ...body };
  }

  #mergeDelta(body: EventBody): boolean {
    const last = this.#pending.at(-1);
    if (!last || (body.type !== 'text.delta' && body.type !== 'reasoning.delta')) return false;
    if (last.type !== body.type || last.model !== body.model) return false;
    if (last.delta.length + body.delta.length > maxPieceChars) return false;
    (last as { delta: string }).delta += body.delta;
    return true;
  }
}

/** Of entries in a journal. */
export function bytesOf(entries: readonly JournalEntry[]): number {
  return entries.reduce((sum, entry) => sum + Buffer.byteLength(jsonText(entry)), 0);
}

/** Both as one write, the later one last. */
function together(first: Write, then: Write): Write {
  return {
    ...first,
    ...then,
    entries: [...(first.entries ?? []), ...(then.entries ?? [])],
    patch: { ...first.patch, ...then.patch },
  };
}

interface Flushable {
  flush(): void;
}

/** Windows end on this grid, in milliseconds, so that many runs' flushes share one write to Redis. */
const gridMs = 5;

/**
 * One timer for the flush windows of all runs of a process. All windows have the same length, so they end in the order
 * in which they began and a queue is enough.
 */
export class FlushTimer {
  readonly windowMs: number;
  /** Since when events of a writer wait for the store, longest first. */
  readonly #waiting = new Map<Flushable, number>();
  #queue: { due: number; target: Flushable }[] = [];
  #timer: NodeJS.Timeout | undefined;

  constructor(windowMs: number) {
    this.windowMs = windowMs;
  }

  /** Events of this writer wait for the store, from now on if none did. */
  waits(target: Flushable): void {
    if (!this.#waiting.has(target)) this.#waiting.set(target, performance.now());
  }

  /** None of its events wait any more. */
  rests(target: Flushable): void {
    this.#waiting.delete(target);
  }

  /** How long the event has waited that has waited longest, in milliseconds; 0 where none waits. */
  get lagMs(): number {
    const [since] = this.#waiting.values();
    return since === undefined ? 0 : Math.max(0, performance.now() - since);
  }

  /** Calls `target.flush()` once, at the end of a window that begins now. */
  schedule(target: Flushable): void {
    const now = performance.now();
    const due = Math.ceil((now + this.windowMs) / gridMs) * gridMs;
    this.#queue.push({ due, target });
    this.#timer ??= setTimeout(() => this.#fire(), due - now);
  }

  #fire(): void {
    // Timers are whole milliseconds and may fire a little early.
    const now = performance.now() + 1;
    const later = this.#queue.findIndex(({ due }) => due > now);
    const due = this.#queue.splice(0, later === -1 ? this.#queue.length : later);
    const next = this.#queue[0];
    this.#timer = next && setTimeout(() => this.#fire(), Math.max(1, next.due - performance.now()));
    for (const { target } of due) target.flush();
  }
}
