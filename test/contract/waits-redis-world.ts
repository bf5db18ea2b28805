import { redisWaits } from '../../src/shared/state/run/waits/waits.ts';
import { redisWorld, type RedisWorld } from './redis-world.ts';
import { decideAboutRun } from '../../src/shared/state/run/control/decide.ts';
import { readDecision } from '../../src/shared/contract/decisions.ts';
import type { DecisionsWorld } from './decisions.ts';

/** The waits of the test Redis, or of the one at `url`. */
export async function redisWaitsWorld(url?: string): Promise<RedisWorld & DecisionsWorld> {
  const world = await redisWorld(url);
  return {
    ...world,
    waits: redisWaits(world.options),
    now: async () => Date.now(),
    async pass(ms) {
      const members = await world.redis.zrange(world.keys.timers, 0, '-1');
      for (const member of members) await world.redis.zincrby(world.keys.timers, -ms, member);
    },
    decide: (runId, decide) => decideAboutRun(world.options, runId, decide),
    async decisions(runId) {
      const texts = await world.redis.hvals(world.keys.decisions(runId));
      return texts.map((text) => readDecision(text, runId));
    },
  };
}
