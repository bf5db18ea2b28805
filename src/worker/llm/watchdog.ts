import type { Clock } from '../../shared/base/clock.ts';

/** Notices silence. A sign of life costs one number; there is one timer at a time however many signs there are. */
export class Watchdog {
  readonly #clock: Clock;
  readonly #onSilence: (limitMs: number) => void;
  #phase = new AbortController();
  #seenMs = 0;

  constructor(clock: Clock, onSilence: (limitMs: number) => void) {
    this.#clock = clock;
    this.#onSilence = onSilence;
  }

  /** From now on, `limitMs` without a sign of life is silence. Replaces the limit before. */
  expect(limitMs: number): void {
    this.stop();
    this.#phase = new AbortController();
    this.seen();
    void this.#watch(limitMs, this.#phase.signal);
  }

  /** A sign of life. */
  seen(): void {
    this.#seenMs = this.#clock.monotonic();
  }

  stop(): void {
    this.#phase.abort('stopped');
  }

  async #watch(limitMs: number, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const left = this.#seenMs + limitMs - this.#clock.monotonic();
      if (left <= 0) return this.#onSilence(limitMs);
      await this.#clock.sleep(Math.ceil(left), signal).catch(() => {});
    }
  }
}
