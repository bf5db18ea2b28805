import type { ProviderLimits } from '../../../contract/limits.ts';
import type { RedisConnection } from '../../connect.ts';
import { loadScript, runScript, type Script } from '../../script.ts';
import type { Keys } from '../../keys.ts';
import { redisError } from '../../errors.ts';
import type { Clock } from '../../../base/clock.ts';
import type {
  GrantRequest,
  LimiterRequest,
  Learnt,
  LimiterAnswer,
  Limiters,
  Settling,
  Waiting,
} from './rate-limiter.ts';
import { PolledRateLimiter, type RateLimiterObserver } from './polled-limiter.ts';

export interface RedisRateLimiterOptions {
  readonly redis: RedisConnection;
  readonly keys: Keys;
  readonly clock: Clock;
  readonly observe?: RateLimiterObserver;
}

/** The rateLimiter whose limiters live in Redis, shared by all workers. */
export function redisRateLimiter({ redis, keys, ...options }: RedisRateLimiterOptions): PolledRateLimiter {
  return new PolledRateLimiter({ ...options, limiters: new RedisLimiters(redis, keys) });
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
class RedisLimiters implements Limiters {
  readonly #redis: RedisConnection;
  readonly #keys: Keys;

  constructor(redis: RedisConnection, keys: Keys) {
    this.#redis = redis;
    this.#keys = keys;
  }

  async ask({ request, waiter, grantId, maxInlineWaitMs, freed }: LimiterRequest): Promise<LimiterAnswer> {
    const { limiter, limits, tenant, weight, promptTokens, maxOutputTokens } = request;
    const reply = await this.#run('ask', limiter, [
      ...configured(limits),
      waiter,
      grantId,
      tenant,
      weight,
      promptTokens,
      maxOutputTokens,
      Math.max(0, Math.round(maxInlineWaitMs)),
      freed,
    ]);
    return answerOf(reply as readonly number[]);
  }

  async poll(limiter: string, limits: ProviderLimits, waiting: readonly Waiting[], grantIds: readonly string[]) {
    const pairs = waiting.flatMap(({ waiter, grantId }) => [waiter, grantId]);
    const reply = await this.#run('poll', limiter, [...configured(limits), waiting.length, ...pairs, ...grantIds]);
    const [retryMs, ...answers] = reply as readonly [number, ...(readonly number[])[]];
    return { retryMs, answers: answers.map(answerOf) };
  }

  async stepAway(limiter: string, { waiter, grantId }: Waiting): Promise<LimiterAnswer> {
    return answerOf((await this.#run('away', limiter, [waiter, grantId])) as readonly number[]);
  }

  async park({ limiter, limits, runId, tenant, weight, promptTokens, maxOutputTokens }: GrantRequest): Promise<void> {
    await this.#run('park', limiter, [...configured(limits), runId, tenant, weight, promptTokens, maxOutputTokens]);
    // After the script: a dispatch that takes the name off the list looks once more afterwards.
    await this.#command('list a limiter', this.#redis.sadd(this.#keys.limiters, limiter));
  }

  async leave(runId: string): Promise<void> {
    const limiters = await this.#command('read the limiters', this.#redis.smembers(this.#keys.limiters));
    await Promise.all(limiters.map((limiter) => this.#run('leave', limiter, [runId])));
  }

  async settle({ limiter, limits, grantId = '', ageMs, outcome, freed }: Settling): Promise<Learnt> {
    const { usedTokens = -1, outputTokens = -1, unused, limited, report } = outcome;
    const windows = [report?.requests, report?.tokens].flatMap((window) => [
      window?.limit ?? -1,
      window?.remaining ?? -1,
      Math.ceil(window?.resetMs ?? -1),
    ]);
    const reply = await this.#run('settle', limiter, [
      ...configured(limits),
      grantId,
      ageMs,
      usedTokens,
      outputTokens,
      unused ? 1 : 0,
      limited ? 1 : 0,
      Math.ceil(limited?.retryAfterMs ?? -1),
      freed,
      ...windows,
    ]);
    const [cooldownMs = 0, requestsPerMinute = 0, tokensPerMinute = 0, requestsPerWindow = 0] =
      reply as readonly number[];
    return { cooldownMs, requestsPerMinute, tokensPerMinute, requestsPerWindow };
  }

  async dispatch(): Promise<ReadonlyMap<string, readonly string[]>> {
    const limiters = await this.#command('read the limiters', this.#redis.smembers(this.#keys.limiters));
    const woken = await Promise.all(limiters.map((limiter) => this.#dispatchOne(limiter)));
    return new Map(limiters.map((limiter, index) => [limiter, woken[index] ?? []]));
  }

  async #dispatchOne(limiter: string): Promise<readonly string[]> {
    const [waiting, ...runIds] = (await this.#run('dispatch', limiter, [])) as readonly [number, ...string[]];
    if (waiting > 0) return runIds;
    // A run may have parked meanwhile; one that parks after this second look lists the name again.
    await this.#command('take a limiter off the list', this.#redis.srem(this.#keys.limiters, limiter));
    const [since, ...more] = (await this.#run('dispatch', limiter, [])) as readonly [number, ...string[]];
    if (since > 0) await this.#command('list a limiter', this.#redis.sadd(this.#keys.limiters, limiter));
    return [...runIds, ...more];
  }

  async #run(name: keyof typeof scripts, limiter: string, args: readonly (string | number)[]): Promise<unknown> {
    const script: Script = scripts[name];
    const keys = parts.map((part) => this.#keys.limiter(limiter, part));
    const doing = `${name} at a limiter`;
    return await this.#command(doing, runScript(this.#redis, script, keys, args, { doing }));
  }

  async #command<T>(doing: string, command: Promise<T>): Promise<T> {
    try {
      return await command;
    } catch (error) {
      throw redisError(error, doing);
    }
  }
}

function configured({
  requestsPerMinute = 0,
  tokensPerMinute = 0,
  maxInFlight = 0,
  windowMs = 60_000,
}: ProviderLimits) {
  return [requestsPerMinute, tokensPerMinute, maxInFlight, windowMs];
}

function answerOf([kind, first = 0, second = 0]: readonly number[]): LimiterAnswer {
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
