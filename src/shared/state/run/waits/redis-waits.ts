import type { Clock } from '../../../base/clock.ts';
import { redisError } from '../../errors.ts';
import { resumeRun } from './resume.ts';
import type { RunPlace } from '../../script.ts';
import type { Waits } from './waits.ts';
import { decidedEntry } from '../../rules.ts';
import { redisTimers } from './redis-timers.ts';

/** The waits in Redis. Throws `queue_unavailable`. */
export function redisWaits(options: RunPlace & { readonly clock: Clock }): Waits {
  const { redis, keys, clock } = options;
  return {
    ...redisTimers(redis, keys.timers),
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
