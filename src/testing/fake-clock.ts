import { setImmediate as turnOfLoop } from 'node:timers/promises';
import type { Clock } from '../shared/base/clock.ts';
import { RunError } from '../shared/base/errors.ts';

/** How a {@link FakeClock} begins and moves. */
export interface FakeClockOptions {
  /** What the clock shows first: an ISO date, or milliseconds since the epoch. Default: `2026-01-01T00:00:00.000Z`. */
  readonly startAt?: string | number;
  /**
   * Moves on by itself as soon as something waits for a time to pass: a retry, a delay of the model, the time of a poll.
   * Limits do not move it, so a tool that answers is never too late. Default: it moves only when it is moved.
   */
  readonly skipWaits?: boolean;
}

interface Sleeper {
  readonly ms: number;
  readonly dueMs: number;
  readonly isLimit: boolean;
  wake(): void;
}

const defaultStart = '2026-01-01T00:00:00.000Z';

/** Turns of the event loop in which work that was woken reaches its next wait. */
const settledTurns = 4;
/** A wait that a test names has to begin within so many turns. */
const longestPass = 10_000;

/**
 * A clock for tests: no time passes but what the test, or with `skipWaits` a wait, lets pass. Everything that Millrace times in
 * one process goes by it: retries, timeouts of models and tools, wall time, deadlines, approvals.
 *
 * @example
 * const clock = new FakeClock();
 * const result = agent.run('Where is order 7?'); // the tool hangs
 * await clock.pass(30_000); // its time limit
 */
export class FakeClock implements Clock {
  #nowMs: number;
  readonly #startMs: number;
  readonly #skipWaits: boolean;
  readonly #sleepers = new Set<Sleeper>();
  /** Grows with every sleep that begins or ends. */
  #changes = 0;
  #isSkipping = false;
  /** Every wait that began, in milliseconds and in order. */
  readonly waits: number[] = [];
  /** Every limit that began, in milliseconds and in order. */
  readonly limits: number[] = [];

  /** Throws `validation` for a start that is no date. */
  constructor({ startAt = defaultStart, skipWaits = false }: FakeClockOptions = {}) {
    this.#nowMs = typeof startAt === 'number' ? startAt : Date.parse(startAt);
    if (!Number.isFinite(this.#nowMs)) throw new RunError('validation', `startAt ${startAt} is no date`);
    this.#startMs = this.#nowMs;
    this.#skipWaits = skipWaits;
  }

  /** Milliseconds since the epoch. */
  now(): number {
    return this.#nowMs;
  }

  /** The same as `now`: this clock never runs backwards. */
  monotonic(): number {
    return this.#nowMs;
  }

  /** Milliseconds that have passed since the clock was made. */
  get elapsedMs(): number {
    return this.#nowMs - this.#startMs;
  }

  /** How many waits and limits go on. */
  get sleeping(): number {
    return this.#sleepers.size;
  }

  /** As the port says. `Infinity` never passes. */
  sleep(ms: number, signal?: AbortSignal, purpose?: 'limit'): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    (purpose === 'limit' ? this.limits : this.waits).push(ms);
    if (signal?.aborted) {
      reject(signal.reason);
      return promise;
    }
    const onAbort = () => {
      this.#sleepers.delete(sleeper);
      this.#changes++;
      reject(signal?.reason);
    };
    const wake = () => {
      signal?.removeEventListener('abort', onAbort);
      resolve();
    };
    const sleeper = { ms, dueMs: this.#nowMs + ms, isLimit: purpose === 'limit', wake };
    this.#sleepers.add(sleeper);
    this.#changes++;
    signal?.addEventListener('abort', onAbort, { once: true });
    if (this.#skipWaits && !sleeper.isLimit) void this.#skip();
    return promise;
  }

  /** Shows the time `ms` later at once, as after a computer was asleep: what is due by then wakes, late. */
  jump(ms: number): void {
    this.#nowMs += ms;
    this.#wakeDue();
  }

  /**
   * Lets `ms` pass, from one due time to the next. What wakes goes on first: a retry that fails has begun its next wait, which
   * ends within `ms` too where it is short enough.
   */
  async advance(ms: number): Promise<void> {
    const endMs = this.#nowMs + ms;
    await this.#settled();
    for (let dueMs = this.#nextDue(); dueMs <= endMs; dueMs = this.#nextDue()) await this.#moveTo(dueMs);
    this.#nowMs = endMs;
  }

  /**
   * Waits until something sleeps for exactly `ms`, and lets that time pass. Throws when nothing does within 10,000 turns of the
   * event loop; the message says what sleeps instead.
   */
  async pass(ms: number): Promise<void> {
    for (let turns = 0; ![...this.#sleepers].some((sleeper) => sleeper.ms === ms); turns++) {
      if (turns > longestPass) throw new Error(`nothing sleeps for ${ms} ms: ${this.#sleepersText()}`);
      await turnOfLoop();
    }
    this.jump(ms);
  }

  async #skip(): Promise<void> {
    if (this.#isSkipping) return;
    this.#isSkipping = true;
    await this.#settled();
    while ([...this.#sleepers].some(({ isLimit }) => !isLimit) && Number.isFinite(this.#nextDue()))
      await this.#moveTo(this.#nextDue());
    this.#isSkipping = false;
  }

  async #moveTo(dueMs: number): Promise<void> {
    this.#nowMs = Math.max(this.#nowMs, dueMs);
    this.#wakeDue();
    await this.#settled();
  }

  #nextDue(): number {
    return Math.min(...[...this.#sleepers].map(({ dueMs }) => dueMs));
  }

  #wakeDue(): void {
    for (const sleeper of this.#sleepers) {
      if (sleeper.dueMs > this.#nowMs) continue;
      this.#sleepers.delete(sleeper);
      this.#changes++;
      sleeper.wake();
    }
  }

  /** Resolves once nothing begins or ends a sleep any more, as far as no work outside of the process is under way. */
  async #settled(): Promise<void> {
    for (let quiet = 0; quiet < settledTurns;) {
      const before = this.#changes;
      await turnOfLoop();
      quiet = this.#changes === before ? quiet + 1 : 0;
    }
  }

  #sleepersText(): string {
    const found = [...this.#sleepers].map(({ ms, isLimit }) => `${isLimit ? 'a limit of' : 'a wait of'} ${ms} ms`);
    return found.length === 0 ? 'nothing sleeps at all' : `there is ${found.join(', ')}`;
  }
}
