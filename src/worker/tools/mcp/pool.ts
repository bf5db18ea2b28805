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

/** Connections that several runs share, each until it has been idle for a while. `idleMs` 0: until its last user has ended. */
export function connectionPool(idleMs: number, clock: Clock) {
  const pool = new Map<string, Pooled>();
  const closing = new Set<Promise<void>>();
  const close = (key: string, pooled: Pooled): Promise<void> => {
    pooled.idle?.abort();
    if (pool.get(key) === pooled) pool.delete(key);
    const closed = pooled.connection.close().finally(() => closing.delete(closed));
    closing.add(closed);
    return closed;
  };
  const release = async (key: string, pooled: Pooled): Promise<void> => {
    pooled.users--;
    if (pooled.users > 0 || pool.get(key) !== pooled) return;
    if (idleMs === 0) return await close(key, pooled);
    const idle = new AbortController();
    pooled.idle = idle;
    clock.sleep(idleMs, idle.signal, 'limit').then(
      () => close(key, pooled),
      () => {},
    );
  };
  return {
    get size() {
      return pool.size;
    },
    acquire(key: string, make: () => Connection): Lease {
      const pooled: Pooled = pool.get(key) ?? { connection: make(), users: 0 };
      pool.set(key, pooled);
      pooled.idle?.abort();
      pooled.users++;
      let released: Promise<void> | undefined;
      return { connection: pooled.connection, release: () => (released ??= release(key, pooled)) };
    },
    async [Symbol.asyncDispose]() {
      for (const [key, pooled] of pool) void close(key, pooled);
      await Promise.all(closing);
    },
  };
}
