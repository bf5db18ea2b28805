import type { Clock } from '../../shared/base/clock.ts';
import { unlessAborted } from '../../shared/base/deadline.ts';
import { cancelledCall, LlmError } from './errors.ts';

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
      await this.#clock.sleep(Math.ceil(left), signal, 'limit').catch(() => {});
    }
  }
}

/**
 * Does the work of a call under a signal of its own: it aborts with the call's, and when the watchdog notices silence, each time with
 * the error of the call as its reason. `who` is who falls silent.
 */
export async function watched<T>(
  { id, who, clock }: { readonly id: string; readonly who: string; readonly clock: Clock },
  signal: AbortSignal,
  work: (watchdog: Watchdog, stop: AbortSignal) => Promise<T>,
): Promise<T> {
  const stop = new AbortController();
  const onAbort = () => stop.abort(cancelledCall(id, signal));
  if (signal.aborted) onAbort();
  signal.addEventListener('abort', onAbort, { once: true });
  const watchdog = new Watchdog(clock, (limitMs) =>
    stop.abort(new LlmError('timeout', id, `${who} was silent for ${limitMs} ms`)),
  );
  try {
    return await work(watchdog, stop.signal);
  } finally {
    watchdog.stop();
    signal.removeEventListener('abort', onAbort);
  }
}

/**
 * The values of an iterable until the signal is aborted; then it throws the signal's reason, also when the iterable pays
 * no attention to the signal. An iterable that is left early gets `return()` and is not waited for.
 */
export async function* untilAborted<T>(iterable: AsyncIterable<T>, signal: AbortSignal): AsyncGenerator<T> {
  const iterator = iterable[Symbol.asyncIterator]();
  let ended = false;
  try {
    for (;;) {
      signal.throwIfAborted();
      const next = await unlessAborted(iterator.next(), signal).catch((error: unknown) => {
        ended = !signal.aborted;
        throw error;
      });
      ended = next.done === true;
      if (next.done) return;
      yield next.value;
    }
  } finally {
    if (!ended) void Promise.resolve(iterator.return?.()).catch(() => {});
  }
}
