import type { RedisConnection } from '../../connect.ts';
import { loadScript, runScript } from '../../script.ts';
import { redisError } from '../../errors.ts';
import type { Timers } from './waits.ts';
import { dueLeaseMs } from '../../rules.ts';

const dueScript = loadScript(import.meta.url, './due.lua');
/** More would hold up Redis. */
const maxDue = 5_000;

/** Timers in one sorted set, by the time of Redis itself. Throws `queue_unavailable`. */
export function redisTimers(redis: RedisConnection, key: string): Timers {
  return {
    async at(runId, dueMs) {
      await redis.zadd(key, dueMs, runId).catch((error: unknown) => {
        throw redisError(error, `timer of run ${runId}`);
      });
    },
    async clear(runId) {
      await redis.zrem(key, runId).catch((error: unknown) => {
        throw redisError(error, `timer of run ${runId}`);
      });
    },
    async due(limit) {
      const taken = runScript(redis, dueScript, [key], [Math.min(limit, maxDue), dueLeaseMs]);
      return (await taken.catch((error: unknown) => {
        throw redisError(error, 'take of due timers');
      })) as readonly string[];
    },
  };
}
