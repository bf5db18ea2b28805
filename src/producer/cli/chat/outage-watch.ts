import { systemClock } from '../../../shared/base/clock.ts';
import { RunError } from '../../../shared/base/errors.ts';

const lookAgainMs = 500;

/** What a client needs at the other end, as a sentence begins with it. */
type OtherEnd = 'Redis' | 'The producer';

/** Reports when Redis, or the producer, is away and when it is back, once each, and outlasts the time in between. */
export class OutageWatch {
  readonly #what: OtherEnd;
  readonly #probe: () => Promise<unknown>;
  readonly #report: (text: string) => void;
  readonly #stop: AbortSignal;
  #isAway = false;
  #isLooking = false;

  /** `probe` is any read that fails while it is away. */
  constructor(what: OtherEnd, probe: () => Promise<unknown>, report: (text: string) => void, stop: AbortSignal) {
    this.#what = what;
    this.#probe = probe;
    this.#report = report;
    this.#stop = stop;
  }

  /** Call it after a connection error: checks in the background whether it is away, until it is there. */
  suspect(): void {
    if (!this.#isLooking) void this.#look();
  }

  /** Does the work until it is there for it. Throws what else goes wrong, and the signal's reason. */
  async again<T>(work: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        const value = await work();
        this.#there();
        return value;
      } catch (error) {
        this.#stop.throwIfAborted();
        if (!(error instanceof RunError && error.code === 'queue_unavailable')) throw error;
        this.#away(error);
      }
      await systemClock.sleep(lookAgainMs, this.#stop);
    }
  }

  async #look(): Promise<void> {
    this.#isLooking = true;
    try {
      await this.again(this.#probe);
    } catch {
      // Any other error shows in the command that meets it.
    }
    this.#isLooking = false;
  }

  #away({ message }: RunError): void {
    if (!this.#isAway) this.#report(`${this.#what} is away, and this goes on when it is back: ${message}`);
    this.#isAway = true;
  }

  #there(): void {
    if (this.#isAway) this.#report(`${this.#what} is back.`);
    this.#isAway = false;
  }
}
