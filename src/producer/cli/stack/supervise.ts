import { systemClock } from '../../../shared/base/clock.ts';

/** A process of the stack. */
export interface StackPart {
  readonly pid: number;
  /** Resolves with how it ended. */
  readonly ended: Promise<string>;
  stop(): Promise<void>;
}

const firstDelayMs = 500;
const maxDelayMs = 15_000;
/** A part that ran this long was well; the next loss begins with the shortest delay again. */
const wellAfterMs = 30_000;

/**
 * Starts a part. One that can be replaced calls `whenLoaded` once it has read everything, and takes over when that has
 * resolved. Until then it ends at once when `stopping` aborts: what it loads may never end.
 */
type Start = (whenLoaded: () => Promise<void>, stopping: AbortSignal) => Promise<StackPart>;

/** Keeps one part of the stack alive: starts it again, later each time, when it ends without having been stopped. */
export class Supervised {
  readonly name: string;
  readonly #start: Start;
  readonly #report: (text: string) => void;
  readonly #stopping = new AbortController();
  #part: StackPart;
  readonly #watching: Promise<void>;
  /** While the part is being replaced: resolves with whether it was. */
  #replacing: Promise<boolean> | undefined;
  /** While the part is down: ends the pause before its next start. */
  #pause: AbortController | undefined;
  /** A start that is under way reads files that have changed since. */
  #outdated = false;

  private constructor(name: string, start: Start, report: (text: string) => void, part: StackPart) {
    this.name = name;
    this.#start = start;
    this.#report = report;
    this.#part = part;
    this.#watching = this.#watch();
  }

  /**
   * Resolves when the part serves for the first time. A first start that fails is thrown, not repeated. `interrupted` ends one
   * that still loads.
   */
  static async start(
    name: string,
    start: Start,
    report: (text: string) => void,
    interrupted: AbortSignal,
  ): Promise<Supervised> {
    return new Supervised(name, start, report, await start(async () => {}, interrupted));
  }

  /** Of the process that is, or was last, alive. */
  get pid(): number {
    return this.#part.pid;
  }

  /**
   * Starts the part again with what its files say now. The present one works until the next one has read them, and goes on
   * when that throws what is wrong with them. A part that is down is started at once, and this does not wait for it.
   */
  async replace(): Promise<void> {
    if (this.#pause) {
      this.#outdated = true;
      this.#pause.abort();
      return;
    }
    const present = this.#part;
    const next = this.#start(() => present.stop(), this.#stopping.signal);
    this.#replacing = next.then(
      async (part) => {
        this.#part = part;
        // Stopped while it was starting: the stop has ended only its predecessor.
        if (this.#stopping.signal.aborted) await part.stop();
        return true;
      },
      () => false,
    );
    try {
      await next;
    } finally {
      await this.#replacing;
      this.#replacing = undefined;
    }
  }

  /** Ends the part and does not bring it back. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#part.stop();
    await this.#replacing;
    await this.#watching;
  }

  async #watch(): Promise<void> {
    let delayMs = firstDelayMs;
    let startedAt = performance.now();
    for (;;) {
      const how = await this.#part.ended;
      if (this.#stopping.signal.aborted) return;
      if (await this.#replacing) continue;
      if (performance.now() - startedAt > wellAfterMs) delayMs = firstDelayMs;
      this.#report(`${this.name} (pid ${this.#part.pid}) ended: ${how}; starting another in ${delayMs / 1_000} s`);
      startedAt = await this.#restart(delayMs);
      delayMs = Math.min(delayMs * 2, maxDelayMs);
    }
  }

  async #restart(delayMs: number): Promise<number> {
    for (let waitMs = delayMs; ; waitMs = Math.min(waitMs * 2, maxDelayMs)) {
      try {
        await this.#paused(waitMs);
        this.#outdated = false;
        this.#part = await this.#start(async () => {}, this.#stopping.signal);
        // Stopped while it was starting: the stop has ended only its predecessor.
        if (this.#stopping.signal.aborted) await this.#part.stop();
        else this.#report(`${this.name} is back (pid ${this.#part.pid})`);
        this.#pause = undefined;
        if (this.#outdated) void this.replace().catch((error: unknown) => this.#report(messageOf(error)));
        return performance.now();
      } catch (error) {
        if (this.#stopping.signal.aborted) return performance.now();
        this.#report(`${this.name} does not start: ${messageOf(error)}`);
      }
    }
  }

  /** Throws when the part is stopped meanwhile. */
  async #paused(waitMs: number): Promise<void> {
    const pause = new AbortController();
    this.#pause = pause;
    const { signal } = this.#stopping;
    await systemClock.sleep(waitMs, AbortSignal.any([signal, pause.signal])).catch(() => signal.throwIfAborted());
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
