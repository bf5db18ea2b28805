import type { Clock } from '../../../shared/base/clock.ts';
import type { Connection } from './connection.ts';

interface Pooled {
  readonly connection: Connection;
  users: number;
  /** Ends the wait for the time at which it has been idle for long enough. */
  idle?: AbortController;
}

export interface Lease {
  readonly connection: Connection;
  readonly release: () => Promise<void>;
}

/** Connections that several runs share, each until it has been idle for a while. */
export class ConnectionPool implements AsyncDisposable {
  readonly #idleMs: number;
  readonly #clock: Clock;
  readonly #pooled = new Map<string, Pooled>();
  readonly #closing = new Set<Promise<void>>();

  /** `idleMs` 0: a connection ends with its last user. */
  constructor(idleMs: number, clock: Clock) {
    this.#idleMs = idleMs;
    this.#clock = clock;
  }

  get size(): number {
    return this.#pooled.size;
  }

  acquire(key: string, make: () => Connection): Lease {
    const pooled: Pooled = this.#pooled.get(key) ?? { connection: make(), users: 0 };
    this.#pooled.set(key, pooled);
    pooled.idle?.abort();
    pooled.users++;
    let released: Promise<void> | undefined;
    return { connection: pooled.connection, release: () => (released ??= this.#release(key, pooled)) };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const [key, pooled] of this.#pooled) void this.#close(key, pooled);
    await Promise.all(this.#closing);
  }

  async #release(key: string, pooled: Pooled): Promise<void> {
    pooled.users--;
    if (pooled.users > 0 || this.#pooled.get(key) !== pooled) return;
    if (this.#idleMs === 0) return await this.#close(key, pooled);
    const idle = new AbortController();
    pooled.idle = idle;
    this.#clock.sleep(this.#idleMs, idle.signal, 'limit').then(
      () => this.#close(key, pooled),
      () => {},
    );
  }

  #close(key: string, pooled: Pooled): Promise<void> {
    pooled.idle?.abort();
    if (this.#pooled.get(key) === pooled) this.#pooled.delete(key);
    const closed = pooled.connection.close().finally(() => this.#closing.delete(closed));
    this.#closing.add(closed);
    return closed;
  }
}
