import { named } from '../../errors.ts';
import type { KeySpace } from '../../keys.ts';
import { loadScript, runScript } from '../../script.ts';
import { parts, usedTtlMs } from './limiters.ts';

const look = loadScript(import.meta.url, './look.lua');
const maxListed = 100;

/** What a limiter allows within its window, and what of it is in use. 0: no such limit is known. */
export interface LimiterUse {
  readonly limiter: string;
  readonly windowMs: number;
  readonly requests: number;
  readonly usedRequests: number;
  readonly tokens: number;
  readonly usedTokens: number;
  /** Calls at the same time. */
  readonly concurrency: number;
  readonly inFlight: number;
  readonly waiting: number;
  /** Milliseconds until the provider is asked again, after it has refused. */
  readonly cooldownMs: number;
}

/** What is in use of the limiters of the last day, the latest first; at most the first hundred. Throws `queue_unavailable`. */
export async function limitersInUse({ redis, keys }: KeySpace): Promise<readonly LimiterUse[]> {
  const since = Date.now() - usedTtlMs;
  const used = await named('list of limiters', redis.zrangebyscore(keys.limitersUsed, since, '+inf'));
  return await Promise.all(
    used
      .slice(-maxListed)
      .toReversed()
      .map(async (limiter) => {
        const own = parts.map((part) => keys.limiter(limiter, part));
        return useOf(limiter, await runScript(redis, look, own, [], { doing: 'look at a limiter' }));
      }),
  );
}

function useOf(limiter: string, reply: unknown): LimiterUse {
  const [windowMs = 0, requests = 0, usedRequests = 0, tokens = 0, usedTokens = 0, ...others] =
    reply as readonly number[];
  const [concurrency = 0, inFlight = 0, waiting = 0, cooldownMs = 0] = others;
  return { limiter, windowMs, requests, usedRequests, tokens, usedTokens, concurrency, inFlight, waiting, cooldownMs };
}
