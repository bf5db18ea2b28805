/** Locks by name, held by one at a time in the order in which they asked. For one process. */
export class ArrivalLock {
  readonly #ends = new Map<string, Promise<void>>();

  /** Resolves with the release when all before are through; undefined when the signal is aborted first. */
  async enter(name: string, signal: AbortSignal): Promise<(() => void) | undefined> {
    if (signal.aborted) return undefined;
    const before = this.#ends.get(name) ?? Promise.resolve();
    const { promise: done, resolve: release } = Promise.withResolvers<void>();
    // Who gives up its place is through at once, but those behind still wait for those before.
    const end = before.then(() => done);
    this.#ends.set(name, end);
    void end.then(() => this.#ends.get(name) === end && this.#ends.delete(name));
    if (await isReached(before, signal)) return release;
    release();
    return undefined;
  }
}

async function isReached(before: Promise<void>, signal: AbortSignal): Promise<boolean> {
  const { promise: aborted, resolve: abort } = Promise.withResolvers<void>();
  const listener = () => abort();
  signal.addEventListener('abort', listener, { once: true });
  try {
    return await Promise.race([before.then(() => true), aborted.then(() => false)]);
  } finally {
    signal.removeEventListener('abort', listener);
  }
}
