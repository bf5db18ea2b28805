import { longestTimerMs, repeat, type Clock } from '../../shared/base/clock.ts';
import type { CancelRequest } from '../../shared/contract/control.ts';
import { deadlineExceeded } from '../../shared/contract/deadline.ts';
import { RunError } from '../../shared/base/errors.ts';
import type { Ports } from './ports.ts';

/**
 * Everything that can stop a run from outside, as one signal with its reason: `cancelled`, `run_timeout`,
 * `turn_limit`, `deadline_exceeded`, `budget_exceeded`, `lock_lost`, or a handover. The first reason stays, but `lost` beats all others: a
 * worker that is no longer the owner must not report even a cancel.
 */
export class RunSignals {
  readonly #controller = new AbortController();
  #cancel: CancelRequest | undefined;
  #lost = false;
  #handOver = false;
  readonly #landing = new AbortController();
  readonly #timers = new Map<string, AbortController>();
  readonly #clock: Pick<Clock, 'sleep'>;
  #wallTimeMs = 0;
  readonly #outer: AbortSignal;
  readonly #onOuter: () => void;

  /** `outer` is the job layer's signal: aborted when the lease is lost or the worker shuts down. */
  constructor(outer: AbortSignal, clock: Pick<Clock, 'sleep'>) {
    this.#outer = outer;
    this.#clock = clock;
    this.#onOuter = () => this.#stopFrom(outer.reason);
    if (outer.aborted) this.#onOuter();
    else outer.addEventListener('abort', this.#onOuter, { once: true });
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Aborted before a limit of time, with its error, where a closing call gets the rest of the time. */
  get landing(): AbortSignal {
    return this.#landing.signal;
  }

  /** The cancel request, if any; a drain takes effect at the next step boundary. */
  get cancelRequest(): CancelRequest | undefined {
    return this.#cancel;
  }

  get lost(): boolean {
    return this.#lost;
  }

  /** The worker shuts down: the run is handed over from its last commit. */
  get handOver(): boolean {
    return this.#handOver;
  }

  /** False when it changes nothing: only a cancel that stops at once overrides one that drains. */
  cancel(request: CancelRequest): boolean {
    if (this.#cancel && !(this.#cancel.drain && !request.drain)) return false;
    this.#cancel = request;
    if (!request.drain) this.#controller.abort(new RunError('cancelled', request.reason ?? 'the run was cancelled'));
    return true;
  }

  lose(why: string): void {
    this.#lost = true;
    this.#controller.abort(new RunError('lock_lost', why));
  }

  /** The limit in force, in milliseconds. */
  get wallTimeMs(): number {
    return this.#wallTimeMs;
  }

  /**
   * Ends the run with `run_timeout` once `limitMs` have passed, of which `elapsedMs` already have. `closes`: the end of that
   * time is for a closing call.
   */
  limitWallTime(limitMs: number, elapsedMs: number, closes = false): void {
    this.#wallTimeMs = limitMs;
    const error = new RunError('run_timeout', `the run took longer than ${limitMs} ms`);
    this.#limit('wall', { limitMs, leftMs: limitMs - elapsedMs, error, closes });
  }

  /** The same with `budget_exceeded`, for a child whose parent gave it so much time. */
  limitWork(limitMs: number, elapsedMs: number, closes = false): void {
    const error = new RunError('budget_exceeded', `the child passed its ${limitMs} ms`);
    this.#limit('work', { limitMs, leftMs: limitMs - elapsedMs, error, closes });
  }

  /** Keeps the end of the time before a deadline for a closing call. */
  landBeforeDeadline(atMs: number, limitMs: number, leftMs: number): void {
    this.#endAfter('landing:deadline', leftMs - closingMs(limitMs), deadlineExceeded(atMs), this.#landing);
  }

  /** Ends the run with `turn_limit`: its journal has reached its bound. */
  limitJournal(maxBytes: number): void {
    const message = `the journal of the run has reached ${maxBytes} bytes (JOURNAL_MAX_BYTES)`;
    this.#controller.abort(new RunError('turn_limit', message));
  }

  /** The same with `deadline_exceeded`, so many milliseconds from now. */
  limitDeadline(atMs: number, leftMs: number): void {
    this.#endAfter('deadline', leftMs, deadlineExceeded(atMs));
  }

  dispose(): void {
    for (const timer of this.#timers.values()) timer.abort();
    this.#outer.removeEventListener('abort', this.#onOuter);
  }

  #limit(name: 'wall' | 'work', { limitMs, leftMs, error, closes }: TimeLimit): void {
    this.#endAfter(name, leftMs, error);
    if (closes) this.#endAfter(`landing:${name}`, leftMs - closingMs(limitMs), error, this.#landing);
  }

  #endAfter(limit: string, leftMs: number, error: RunError, ends = this.#controller): void {
    this.#timers.get(limit)?.abort();
    if (leftMs <= 0) return ends.abort(error);
    const waitMs = Math.min(leftMs, longestTimerMs);
    const timer = new AbortController();
    this.#timers.set(limit, timer);
    this.#clock.sleep(waitMs, timer.signal, 'limit').then(
      () => this.#endAfter(limit, leftMs - waitMs, error, ends),
      () => {},
    );
  }

  #stopFrom(reason: unknown): void {
    if (reason instanceof RunError && reason.code === 'lock_lost') this.lose(reason.message);
    else {
      this.#handOver = true;
      this.#controller.abort(new RunError('worker_lost', 'the worker is shutting down'));
    }
  }
}

interface TimeLimit {
  readonly limitMs: number;
  readonly leftMs: number;
  readonly error: RunError;
  readonly closes: boolean;
}

const longestClosingMs = 30_000;

/** How much of a limit of time is for the closing call. */
function closingMs(limitMs: number): number {
  return Math.min(longestClosingMs, Math.floor(limitMs / 5));
}

/** How often the durable flags are read, for the case that the channel is silent or its connection is down. */
const pollMs = 1_000;

/**
 * Notifies the runs of this process of cancel requests: at once over the control channel, within a second by reading the
 * flags, which costs one small read per process however many runs it has.
 */
export class CancelWatch implements Disposable {
  readonly #listeners = new Map<string, (cancel: CancelRequest) => void>();
  readonly #ports: Pick<Ports, 'runs' | 'control' | 'log'>;
  readonly #subscription: Disposable;
  readonly #polling: AsyncDisposable;

  constructor(ports: Pick<Ports, 'runs' | 'control' | 'log'>) {
    this.#ports = ports;
    this.#subscription = ports.control.onCancel((runId, cancel) => this.#listeners.get(runId)?.(cancel));
    const onError = (err: unknown) => ports.log.debug({ err }, 'cancel flags could not be read');
    this.#polling = repeat(pollMs, () => this.#poll(), onError);
  }

  /** Calls back for every cancel of this run, possibly more than once. One watcher per run. */
  watch(runId: string, listener: (cancel: CancelRequest) => void): Disposable {
    this.#listeners.set(runId, listener);
    return {
      [Symbol.dispose]: () => {
        if (this.#listeners.get(runId) === listener) this.#listeners.delete(runId);
      },
    };
  }

  [Symbol.dispose](): void {
    void this.#polling[Symbol.asyncDispose]();
    this.#subscription[Symbol.dispose]();
  }

  async #poll(): Promise<void> {
    if (this.#listeners.size === 0) return;
    for (const [runId, cancel] of await this.#ports.runs.pendingCancels()) this.#listeners.get(runId)?.(cancel);
  }
}
