import { unlessAborted } from '../../shared/base/deadline.ts';

/**
 * One signal for several reasons, until disposed. `AbortSignal.any` would do, but keeps something of every combination
 * for as long as its longest-lived source lives, and here that is the client.
 */
export class Stop implements Disposable {
  readonly #controller = new AbortController();
  readonly #signals: readonly AbortSignal[];
  readonly #timer: NodeJS.Timeout | undefined;
  readonly #abort = () => this.#controller.abort();

  /** `afterMs`: milliseconds from now; absent: no limit. */
  constructor({ signals, afterMs }: { signals: readonly (AbortSignal | undefined)[]; afterMs?: number | undefined }) {
    this.#signals = signals.filter((signal) => signal !== undefined);
    for (const signal of this.#signals) {
      if (signal.aborted) this.#abort();
      else signal.addEventListener('abort', this.#abort, { once: true });
    }
    // Longer timers than this fire at once.
    this.#timer = afterMs === undefined ? undefined : setTimeout(this.#abort, Math.min(afterMs, 2 ** 31 - 1));
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  now(): void {
    this.#abort();
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    for (const signal of this.#signals) signal.removeEventListener('abort', this.#abort);
  }
}

/**
 * An iteration that ends without an error as soon as a signal aborts or the consumer returns, also in the middle of a
 * wait: a generator alone would first finish the wait. Nothing runs before the first step.
 */
export function stoppable<T>(
  signals: readonly (AbortSignal | undefined)[],
  body: (stop: AbortSignal) => AsyncGenerator<T, void, undefined>,
): AsyncIterableIterator<T> {
  let stop: Stop | undefined;
  async function* run(): AsyncGenerator<T, void, undefined> {
    using own = new Stop({ signals });
    stop = own;
    try {
      yield* body(own.signal);
    } catch (error) {
      if (!own.signal.aborted) throw error;
    }
  }
  const generator = run();
  return {
    next: () => generator.next(),
    return: async () => {
      stop?.now();
      return await generator.return();
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}

/** Resolves when the work does or the signal aborts, whichever is first. */
export async function untilStopped(work: Promise<void>, stop: AbortSignal): Promise<void> {
  if (stop.aborted) return;
  await unlessAborted(work, stop).catch((error: unknown) => {
    if (!stop.aborted) throw error;
  });
}
