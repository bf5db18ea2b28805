import type { LifecycleStream } from './lifecycle-stream.ts';
import type { Keys, RedisConnection } from './connect.ts';

/** Where runs are kept, and where their events go. */
export interface RunPlace {
  readonly redis: RedisConnection;
  readonly keys: Keys;
  /** Keys of different runs live on different nodes: no script may touch two runs, and live channels are sharded. */
  readonly cluster: boolean;
  readonly lifecycle: LifecycleStream;
  /** Events kept per run for replay, about. */
  readonly eventLogMax: number;
}
