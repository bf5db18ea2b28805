import { LifecycleStream } from '../../src/shared/state/lifecycle-stream.ts';
import type { RedisConnection } from '../../src/shared/state/connect.ts';
import type { Keys } from '../../src/shared/state/keys.ts';
import type { RunKeySpace } from '../../src/shared/state/script.ts';

/** Where runs are kept in a Redis that is no Cluster, or in one that is. */
export function runKeySpace(redis: RedisConnection, keys: Keys, cluster = false): RunKeySpace {
  const lifecycle = new LifecycleStream({ redis, keys, cluster });
  return { redis, keys, cluster, lifecycle, eventLogMax: 10_000, eventLogTtlS: 120, resultTtlS: 600, archiveTtlS: 0 };
}
