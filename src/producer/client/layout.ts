import { systemClock } from '../../shared/base/clock.ts';
import type { RedisConnection } from '../../shared/state/connect.ts';
import type { ThreadPlace } from '../../shared/state/thread/thread-place.ts';
import type { RunPlace } from '../../shared/state/script.ts';
import type { ClientCore } from './client-core.ts';

/** Where the runs of this client are. */
export function placeOf({ keys, cluster, lifecycle, settings }: ClientCore, redis: RedisConnection): RunPlace {
  const { eventLogMax, eventLogTtlS, resultTtlS } = settings;
  return { redis, keys, cluster, lifecycle, eventLogMax, eventLogTtlS, resultTtlS };
}

/** Where the threads of this client are. */
export function threadPlaceOf({ keys, cluster }: ClientCore, redis: RedisConnection): ThreadPlace {
  return { redis, keys, cluster, clock: systemClock };
}
