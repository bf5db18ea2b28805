/** The port for time. `now` is wall-clock milliseconds since the epoch, `monotonic` never runs backwards. */
export interface Clock {
  now(): number;
  monotonic(): number;
  /** Resolves after `ms`, or rejects with the signal's reason as soon as it aborts. Never leaves a timer behind. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

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
