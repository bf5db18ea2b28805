/** Anything that has something to send when its window ends. */
interface Flushable {
  flush(): void;
}

/** Windows that end this close together end together, so that their flushes share one write to Redis. */
const togetherMs = 6;

/**
 * One timer for the flush windows of all runs of a process. All windows have the same length, so they end in the order
 * in which they began and a queue is enough.
 */
export class FlushTimer {
  readonly windowMs: number;
  #queue: { due: number; target: Flushable }[] = [];
  #timer: NodeJS.Timeout | undefined;

  constructor(windowMs: number) {
    this.windowMs = windowMs;
  }

  /** Calls `target.flush()` once, at the end of a window that begins now. */
  schedule(target: Flushable): void {
    this.#queue.push({ due: performance.now() + this.windowMs, target });
    this.#timer ??= setTimeout(() => this.#fire(), this.windowMs);
  }

  #fire(): void {
    const now = performance.now() + togetherMs;
    const ripe = this.#queue.findIndex(({ due }) => due > now);
    const due = this.#queue.splice(0, ripe === -1 ? this.#queue.length : ripe);
    const next = this.#queue[0];
    this.#timer = next && setTimeout(() => this.#fire(), Math.max(1, next.due - performance.now()));
    for (const { target } of due) target.flush();
  }
}
