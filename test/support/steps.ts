import type { RedisConnection } from '../../src/shared/state/connect.ts';

/** Sends the commands of a connection only as far as a test says, in the order in which they were given. */
export class Steps {
  /** Commands that were sent and answered. */
  answered = 0;
  #allowed = Number.POSITIVE_INFINITY;
  #taken = 0;
  #waiting: (() => void)[] = [];
  #looks: { readonly count: number; readonly reached: () => void }[] = [];

  /** The same connection, with each command held here. */
  through(redis: RedisConnection): RedisConnection {
    return new Proxy(redis, {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name);
        if (typeof value !== 'function') return value;
        return async (...args: unknown[]): Promise<unknown> => {
          await this.#turn();
          try {
            return await Reflect.apply(value, target, args);
          } finally {
            this.answered += 1;
            for (const { count, reached } of this.#looks) if (this.answered >= count) reached();
          }
        };
      },
    });
  }

  /** From now on nothing passes. */
  hold(): void {
    this.#allowed = 0;
    this.#taken = 0;
    this.answered = 0;
    this.#looks = [];
  }

  /** Sends so many more, and resolves once they have been answered. */
  async send(count: number): Promise<void> {
    this.#allowed += count;
    const reached = Promise.withResolvers<void>();
    const look = { count: this.#allowed, reached: reached.resolve };
    this.#looks.push(look);
    while (this.#taken < this.#allowed && this.#waiting.length > 0) this.#release();
    if (this.answered >= look.count) return;
    await reached.promise;
  }

  async #turn(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.push(resolve);
    if (this.#taken < this.#allowed) this.#release();
    await promise;
  }

  #release(): void {
    this.#taken += 1;
    this.#waiting.shift()?.();
  }
}
