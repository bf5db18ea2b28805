import type { ProviderLimits } from '../../../contract/limits.ts';
import type { RedisConnection } from '../../connect.ts';
import { loadScript, runScript } from '../../script.ts';
import type { Keys } from '../../keys.ts';
import { withNamedErrors } from '../../errors.ts';
import type { Clock } from '../../../base/clock.ts';
import type { LimiterAnswer, Limiters } from './rate-limiter.ts';
import { PolledRateLimiter, type RateLimiterObserver } from './polled-limiter.ts';

export interface RedisRateLimiterOptions {
  readonly redis: RedisConnection;
  readonly keys: Keys;
  readonly clock: Clock;
  readonly observe?: RateLimiterObserver;
}

/** The rateLimiter whose limiters live in Redis, shared by all workers. */
export function redisRateLimiter({ redis, keys, ...options }: RedisRateLimiterOptions): PolledRateLimiter {
  return new PolledRateLimiter({ ...options, limiters: redisLimiters(redis, keys) });
}

const scripts = {
  ask: loadScript(import.meta.url, './ask.lua'),
  poll: loadScript(import.meta.url, './poll.lua'),
  away: loadScript(import.meta.url, './away.lua'),
  park: loadScript(import.meta.url, './park.lua'),
  leave: loadScript(import.meta.url, './leave.lua'),
  settle: loadScript(import.meta.url, './settle.lua'),
  dispatch: loadScript(import.meta.url, './dispatch.lua'),
};

/** In the order in which the scripts name them. */
const parts = ['state', 'window', 'queue', 'waiters', 'tenants', 'past', 'leases', 'grants', 'seats', 'wake'] as const;

/** The limiters in Redis: each under one hash tag, all changes by scripts, all times by the clock of Redis. */
function redisLimiters(redis: RedisConnection, keys: Keys): Limiters {
  const run = async (name: keyof typeof scripts, limiter: string, args: readonly (string | number)[]) => {
    const own = parts.map((part) => keys.limiter(limiter, part));
    return await runScript(redis, scripts[name], own, args, { doing: `${name} at a limiter` });
  };
  const waitersOf = async (limiter: string) =>
    (await run('dispatch', limiter, [])) as readonly [waiting: number, ...runIds: string[]];
  const dispatchOne = async (limiter: string): Promise<readonly string[]> => {
    const [waiting, ...runIds] = await waitersOf(limiter);
    if (waiting > 0) return runIds;
    // A run may have parked meanwhile; one that parks after this second look lists the name again.
    await redis.srem(keys.limiters, limiter);
    const [since, ...more] = await waitersOf(limiter);
    if (since > 0) await redis.sadd(keys.limiters, limiter);
    return [...runIds, ...more];
  };
  return withNamedErrors<Limiters>('limiters', {
    async ask({ request, waiter, grantId, maxInlineWaitMs, freed }) {
      const { limiter, limits, tenant, weight, promptTokens, maxOutputTokens } = request;
      const about = [waiter, grantId, tenant, weight, promptTokens, maxOutputTokens];
      const waitMs = Math.max(0, Math.round(maxInlineWaitMs));
      return answerOf(await run('ask', limiter, [...configured(limits), ...about, waitMs, freed]));
    },
    async poll(limiter, limits, waiting, grantIds) {
      const pairs = waiting.flatMap(({ waiter, grantId }) => [waiter, grantId]);
      const reply = await run('poll', limiter, [...configured(limits), waiting.length, ...pairs, ...grantIds]);
      const [retryMs, ...answers] = reply as readonly [number, ...unknown[]];
      return { retryMs, answers: answers.map(answerOf) };
    },
    async stepAway(limiter, { waiter, grantId }) {
      return answerOf(await run('away', limiter, [waiter, grantId]));
    },
    async park({ limiter, limits, runId, tenant, weight, promptTokens, maxOutputTokens }) {
      await run('park', limiter, [...configured(limits), runId, tenant, weight, promptTokens, maxOutputTokens]);
      // After the script: a dispatch that takes the name off the list looks once more afterwards.
      await redis.sadd(keys.limiters, limiter);
    },
    async leave(runId) {
      const limiters = await redis.smembers(keys.limiters);
      await Promise.all(limiters.map((limiter) => run('leave', limiter, [runId])));
    },
    async settle({ limiter, limits, grantId = '', ageMs, outcome, freed }) {
      const { usedTokens = -1, outputTokens = -1, unused, limited, report } = outcome;
      const windows = [report?.requests, report?.tokens].flatMap((window) => [
        window?.limit ?? -1,
        window?.remaining ?? -1,
        Math.ceil(window?.resetMs ?? -1),
      ]);
      const used = [usedTokens, outputTokens, unused ? 1 : 0, limited ? 1 : 0, Math.ceil(limited?.retryAfterMs ?? -1)];
      const reply = await run('settle', limiter, [...configured(limits), grantId, ageMs, ...used, freed, ...windows]);
      const [cooldownMs = 0, requestsPerMinute = 0, tokensPerMinute = 0, requestsPerWindow = 0] =
        reply as readonly number[];
      return { cooldownMs, requestsPerMinute, tokensPerMinute, requestsPerWindow };
    },
    async dispatch() {
      const limiters = await redis.smembers(keys.limiters);
      return new Map(await Promise.all(limiters.map(async (name) => [name, await dispatchOne(name)] as const)));
    },
  });
}

function configured({
  requestsPerMinute = 0,
  tokensPerMinute = 0,
  maxInFlight = 0,
  windowMs = 60_000,
}: ProviderLimits) {
  return [requestsPerMinute, tokensPerMinute, maxInFlight, windowMs];
}

function answerOf(reply: unknown): LimiterAnswer {
  const [kind, first = 0, second = 0] = reply as readonly number[];
  switch (kind) {
    case 0:
      return { kind: 'free' };
    case 1:
      return { kind: 'granted', tokens: first, waitedMs: second };
    case 2:
      return { kind: 'waiting', retryMs: first };
    case 3:
      return { kind: 'parked', expectedMs: first };
    default:
      return { kind: 'unknown' };
  }
}
