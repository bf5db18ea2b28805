/** The right to be the only suspect of the process that works. */
export interface Post {
  release(): void;
}

interface Waiter {
  readonly suspicion: number;
  readonly enter: (post: Post) => void;
}

/**
 * Lets the suspects of this process work one after the other, each for a short time without the others: if the process
 * dies then, it is known which of them did it. The most suspected works first, so that the others lose little.
 */
export class Watch {
  /** How long one is watched. What has not killed the process by then continues beside the next. */
  readonly watchMs: number;
  readonly announce: (runId: string | undefined) => Promise<void>;
  readonly #longestWaitMs: number;
  readonly #waiting: Waiter[] = [];
  #taken = false;

  /** `announce` takes the run that this process watches now, undefined for none. */
  constructor(watchMs: number, announce: (runId: string | undefined) => Promise<void>) {
    this.watchMs = watchMs;
    this.announce = announce;
    this.#longestWaitMs = 20 * watchMs;
  }

  /** The post, when it is free. */
  tryEnter(): Post | undefined {
    if (this.#taken) return undefined;
    this.#taken = true;
    return this.#post();
  }

  /** Waits for the post. Undefined when `signal` aborts, or after `20 * watchMs`: then the run works unwatched. */
  async enter(suspicion: number, signal: AbortSignal): Promise<Post | undefined> {
    const free = this.tryEnter();
    if (free) return free;
    const { promise, resolve } = Promise.withResolvers<Post | undefined>();
    const waiter: Waiter = { suspicion, enter: resolve };
    this.#waiting.push(waiter);
    const abandon = () => {
      const at = this.#waiting.indexOf(waiter);
      if (at >= 0) this.#waiting.splice(at, 1);
      resolve(undefined);
    };
    const timer = setTimeout(abandon, this.#longestWaitMs);
    signal.addEventListener('abort', abandon, { once: true });
    if (signal.aborted) abandon();
    try {
      return await promise;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', abandon);
    }
  }

  #post(): Post {
    let isReleased = false;
    return {
      release: () => {
        if (isReleased) return;
        isReleased = true;
        this.#releaseToNext();
      },
    };
  }

  #releaseToNext(): void {
    const most = Math.max(...this.#waiting.map(({ suspicion }) => suspicion));
    const at = this.#waiting.findIndex(({ suspicion }) => suspicion === most);
    const [next] = at < 0 ? [] : this.#waiting.splice(at, 1);
    if (next) next.enter(this.#post());
    else this.#taken = false;
  }
}
