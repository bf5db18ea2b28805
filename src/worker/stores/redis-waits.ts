import type { Clock } from '../../shared/clock.ts';
import { loadScript, runScript } from '../../shared/redis.ts';
import { redisError } from '../../shared/redis-error.ts';
import { resumeRun } from '../../shared/resume.ts';
import type { RunPlace } from '../../shared/run-place.ts';
import type { Waits } from '../ports.ts';
import { decidedEntry, dueLeaseMs } from './rules.ts';

const dueScript = loadScript(import.meta.url, './lua/due.lua');
/** More would hold up Redis. */
const maxDue = 5_000;

/** The waits in Redis: timers in one sorted set, by the time of Redis itself. Throws `queue_unavailable`. */
export function redisWaits(options: RunPlace & { readonly clock: Clock }): Waits {
  const { redis, keys, clock } = options;
  return {
    async at(runId, dueMs) {
      await redis.zadd(keys.timers, dueMs, runId).catch((error: unknown) => {
        throw redisError(error, `timer of run ${runId}`);
      });
    },
    async clear(runId) {
      await redis.zrem(keys.timers, runId).catch((error: unknown) => {
        throw redisError(error, `timer of run ${runId}`);
      });
    },
    async due(limit) {
      const taken = runScript(redis, dueScript, [keys.timers], [Math.min(limit, maxDue), dueLeaseMs]);
      return (await taken.catch((error: unknown) => {
        throw redisError(error, 'take of due timers');
      })) as readonly string[];
    },
    async resume(runId, resumption) {
      const atMs = clock.now();
      const end = { summary: resumption.summary, entry: decidedEntry(resumption, atMs), atMs };
      return await resumeRun(options, runId, end).catch((error: unknown) => {
        throw redisError(error, `resume of run ${runId}`);
      });
    },
    async hasDecisions(runId) {
      const count = await redis.exists(keys.decided(runId)).catch((error: unknown) => {
        throw redisError(error, `read of the decisions of run ${runId}`);
      });
      return count > 0;
    },
  };
}
