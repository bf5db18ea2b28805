import type { Clock } from '../../shared/base/clock.ts';
import { RunError } from '../../shared/base/errors.ts';

/** Wrong keys of one address in a minute that are answered as such. */
export const failuresAllowed = 10;
/** Of more addresses in a minute, the oldest are forgotten. */
export const mostAddresses = 10_000;
const windowMs = 60_000;

interface Window {
  readonly endMs: number;
  failures: number;
}

/**
 * Wrong API keys at the login of the console, by the address that they come from, within a minute from the first. Only in the memory
 * of this process: a stranger makes it write nothing to Redis. It never decides about a right key: an address may be that of a proxy,
 * and anybody behind it could lock out all others.
 */
export class FailedLogins {
  readonly #clock: Pick<Clock, 'monotonic'>;
  /** In the order in which they end. */
  readonly #windows = new Map<string, Window>();

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock;
  }

  get size(): number {
    return this.#windows.size;
  }

  /** Counts a wrong key and says how to answer it: `unauthorized`, or after too many `rate_limited` until the minute is over. */
  refusal(address: string): RunError {
    const nowMs = this.#clock.monotonic();
    this.#forgetEnded(nowMs);
    const window = this.#windows.get(address) ?? this.#begin(address, nowMs);
    window.failures += 1;
    if (window.failures <= failuresAllowed) return new RunError('unauthorized', 'this API key is not known');
    const retryAfterS = Math.ceil((window.endMs - nowMs) / 1_000);
    const message = `this API key is not known, and too many wrong ones came from this address; wait ${retryAfterS} s`;
    return new RunError('rate_limited', message, { details: { retryAfterS } });
  }

  #begin(address: string, nowMs: number): Window {
    const [oldest] = this.#windows.keys();
    if (oldest !== undefined && this.#windows.size >= mostAddresses) this.#windows.delete(oldest);
    const window = { endMs: nowMs + windowMs, failures: 0 };
    this.#windows.set(address, window);
    return window;
  }

  #forgetEnded(nowMs: number): void {
    for (const [address, { endMs }] of this.#windows) {
      if (endMs > nowMs) return;
      this.#windows.delete(address);
    }
  }
}
