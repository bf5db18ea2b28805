interface Flushable {
  flush(): void;
}

/** Windows end on this grid, in milliseconds, so that many runs' flushes share one write to Redis. */
const gridMs = 5;

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
    const now = performance.now();
    const due = Math.ceil((now + this.windowMs) / gridMs) * gridMs;
    this.#queue.push({ due, target });
    this.#timer ??= setTimeout(() => this.#fire(), due - now);
  }

  #fire(): void {
    // Timers are whole milliseconds and may fire a little early.
    const now = performance.now() + 1;
    const later = this.#queue.findIndex(({ due }) => due > now);
    const due = this.#queue.splice(0, later === -1 ? this.#queue.length : later);
    const next = this.#queue[0];
    this.#timer = next && setTimeout(() => this.#fire(), Math.max(1, next.due - performance.now()));
    for (const { target } of due) target.flush();
  }
}
