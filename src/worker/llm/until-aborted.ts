/**
 * The values of an iterable until the signal is aborted; then it throws the signal's reason, also when the iterable pays
 * no attention to the signal. An iterable that is left early gets `return()` and is not waited for.
 */
export async function* untilAborted<T>(iterable: AsyncIterable<T>, signal: AbortSignal): AsyncGenerator<T> {
  const iterator = iterable[Symbol.asyncIterator]();
  let abandon: (reason: unknown) => void = () => {};
  const onAbort = () => abandon(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  let ended = false;
  try {
    for (;;) {
      signal.throwIfAborted();
      const next = await new Promise<IteratorResult<T>>((resolve, reject) => {
        abandon = reject;
        iterator.next().then(resolve, reject);
      }).catch((error: unknown) => {
        ended = !signal.aborted;
        throw error;
      });
      ended = next.done === true;
      if (next.done) return;
      yield next.value;
    }
  } finally {
    signal.removeEventListener('abort', onAbort);
    if (!ended) void Promise.resolve(iterator.return?.()).catch(() => {});
  }
}
