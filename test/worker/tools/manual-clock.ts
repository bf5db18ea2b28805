import { setImmediate as tick } from 'node:timers/promises';
import type { Clock } from '../../../src/shared/base/clock.ts';

interface Sleeper {
  readonly ms: number;
  readonly due: number;
  wake(): void;
}

/** A clock that moves only when a test moves it. */
export class ManualClock implements Clock {
  #now = 1_700_000_000_000;
  readonly #sleepers = new Set<Sleeper>();
  /** Every wait that was ever asked for, in milliseconds. */
  readonly waits: number[] = [];

  now(): number {
    return this.#now;
  }

  monotonic(): number {
    return this.#now;
  }

  get sleeping(): number {
    return this.#sleepers.size;
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    this.waits.push(ms);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    if (signal?.aborted) {
      reject(signal.reason);
      return promise;
    }
    const sleeper = { ms, due: this.#now + ms, wake: resolve };
    this.#sleepers.add(sleeper);
    signal?.addEventListener(
      'abort',
      () => {
        this.#sleepers.delete(sleeper);
        reject(signal.reason);
      },
      { once: true },
    );
    return promise;
  }

  advance(ms: number): void {
    this.#now += ms;
    for (const sleeper of this.#sleepers) {
      if (sleeper.due > this.#now) continue;
      this.#sleepers.delete(sleeper);
      sleeper.wake();
    }
  }

  /** Waits until something sleeps for exactly `ms`, and lets that time pass. */
  async pass(ms: number): Promise<void> {
    for (let turns = 0; ![...this.#sleepers].some((sleeper) => sleeper.ms === ms); turns++) {
      if (turns > 10_000) throw new Error(`nothing sleeps for ${ms} ms`);
      await tick();
    }
    this.advance(ms);
  }
}
