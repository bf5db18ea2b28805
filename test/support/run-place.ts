import { LifecycleStream } from '../../src/shared/state/lifecycle-stream.ts';
import type { Keys, RedisConnection } from '../../src/shared/state/connect.ts';
import type { RunPlace } from '../../src/shared/state/run-place.ts';

/** Where runs are kept in a Redis that is no Cluster, or in one that is. */
export function runPlace(redis: RedisConnection, keys: Keys, cluster = false): RunPlace {
  return { redis, keys, cluster, lifecycle: new LifecycleStream({ redis, keys, cluster }), eventLogMax: 10_000 };
}
