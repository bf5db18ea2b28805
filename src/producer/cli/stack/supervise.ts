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

/** Keeps one part of the stack alive: starts it again, later each time, when it ends without having been stopped. */
export class Supervised {
  readonly name: string;
  readonly #start: () => Promise<StackPart>;
  readonly #report: (text: string) => void;
  readonly #stopping = new AbortController();
  #part: StackPart;
  readonly #watching: Promise<void>;

  private constructor(name: string, start: () => Promise<StackPart>, report: (text: string) => void, part: StackPart) {
    this.name = name;
    this.#start = start;
    this.#report = report;
    this.#part = part;
    this.#watching = this.#watch();
  }

  /** Resolves when the part serves for the first time. A first start that fails is thrown, not repeated. */
  static async start(
    name: string,
    start: () => Promise<StackPart>,
    report: (text: string) => void,
  ): Promise<Supervised> {
    return new Supervised(name, start, report, await start());
  }

  /** Of the process that is, or was last, alive. */
  get pid(): number {
    return this.#part.pid;
  }

  /** Ends the part and does not bring it back. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#part.stop();
    await this.#watching;
  }

  async #watch(): Promise<void> {
    let delayMs = firstDelayMs;
    let startedAt = performance.now();
    for (;;) {
      const how = await this.#part.ended;
      if (this.#stopping.signal.aborted) return;
      if (performance.now() - startedAt > wellAfterMs) delayMs = firstDelayMs;
      this.#report(`${this.name} (pid ${this.#part.pid}) ended: ${how}; starting another in ${delayMs / 1_000} s`);
      startedAt = await this.#restart(delayMs);
      delayMs = Math.min(delayMs * 2, maxDelayMs);
    }
  }

  async #restart(delayMs: number): Promise<number> {
    for (let waitMs = delayMs; ; waitMs = Math.min(waitMs * 2, maxDelayMs)) {
      try {
        await systemClock.sleep(waitMs, this.#stopping.signal);
        this.#part = await this.#start();
        // Stopped while it was starting: the stop has ended only its predecessor.
        if (this.#stopping.signal.aborted) await this.#part.stop();
        else this.#report(`${this.name} is back (pid ${this.#part.pid})`);
        return performance.now();
      } catch (error) {
        if (this.#stopping.signal.aborted) return performance.now();
        this.#report(`${this.name} does not start: ${error instanceof Error ? error.message : String(error)}`);
      }
    }
  }
}
