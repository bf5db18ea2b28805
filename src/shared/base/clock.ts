/** The port for time. `now` is wall-clock milliseconds since the epoch, `monotonic` never runs backwards. */
export interface Clock {
  now(): number;
  monotonic(): number;
  /**
   * Resolves after `ms`, or rejects with the signal's reason as soon as it aborts. Never leaves a timer behind. With `limit`
   * the time bounds other work: a clock that skips waits does not skip it.
   */
  sleep(ms: number, signal?: AbortSignal, purpose?: 'limit'): Promise<void>;
}

/**
 * Repeats the work every `ms`, one at a time: a slow store is not asked faster than it answers. Disposing waits for what is
 * under way. Does not keep the process alive.
 */
export function repeat(ms: number, work: () => Promise<unknown>, onError: (error: unknown) => void): AsyncDisposable {
  let running: Promise<void> | undefined;
  const timer = setInterval(() => {
    running ??= work()
      .then(() => {}, onError)
      .finally(() => (running = undefined));
  }, ms).unref();
  return {
    async [Symbol.asyncDispose]() {
      clearInterval(timer);
      await running;
    },
  };
}

/** Longer timers fire at once. */
export const longestTimerMs = 2 ** 31 - 1;

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  sleep(ms, signal) {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    if (signal?.aborted) {
      reject(signal.reason);
      return promise;
    }
    const onAbort = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', onAbort);
      resolve();
    }, ms);
    signal?.addEventListener('abort', onAbort, { once: true });
    return promise;
  },
};
