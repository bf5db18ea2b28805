import type { Clock } from '../../../shared/base/clock.ts';

/** Counts what happens in a window of time, and says when it is too much. */
export class FloodGate {
  readonly #max: number;
  readonly #windowMs: number;
  readonly #clock: Pick<Clock, 'monotonic'>;
  #since = -Infinity;
  #count = 0;

  constructor(max: number, windowMs: number, clock: Pick<Clock, 'monotonic'>) {
    this.#max = max;
    this.#windowMs = windowMs;
    this.#clock = clock;
  }

  /** Counts, and answers whether it is still within bounds. */
  allows(count = 1): boolean {
    const now = this.#clock.monotonic();
    if (now - this.#since >= this.#windowMs) [this.#since, this.#count] = [now, 0];
    this.#count += count;
    return this.#count <= this.#max;
  }
}
