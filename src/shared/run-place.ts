import type { Keys, RedisConnection } from './redis.ts';

/** Where runs are kept, and where their events go. */
export interface RunPlace {
  readonly redis: RedisConnection;
  readonly keys: Keys;
  /** Keys of different runs live on different nodes: no script may touch two runs, and live channels are sharded. */
  readonly cluster: boolean;
  /** Events kept per run for replay, about. */
  readonly eventLogMax: number;
}
