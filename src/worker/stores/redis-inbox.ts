import { redisError } from '../../shared/redis-error.ts';
import type { RunPlace } from '../../shared/run-place.ts';
import { heardBy } from '../../shared/steer.ts';
import type { Inbox } from '../ports.ts';

/** What users say to runs, in Redis. */
export function redisInbox(place: RunPlace): Inbox {
  const { redis, keys } = place;
  const failed = (runId: string) => (error: unknown) => {
    throw redisError(error, `what was said to run ${runId}`);
  };
  return {
    heard: async (runId) => await heardBy(place, runId).catch(failed(runId)),
    drop: async (runId, count) => void (await redis.ltrim(keys.inbox(runId), count, -1).catch(failed(runId))),
  };
}
