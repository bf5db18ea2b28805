import type { ProviderLimits } from '../../../contract/limits.ts';
import { loadScript, runScript } from '../../script.ts';
import type { KeySpace } from '../../keys.ts';
import { withNamedErrors } from '../../errors.ts';
import type { GrantOutcome, GrantRequest } from './rate-limiter.ts';

/** What a limiter answers to a caller that asks, or asked, for a grant. */
export type LimiterAnswer =
  /** No limit is known: nothing is counted. */
  | { readonly kind: 'free' }
  | { readonly kind: 'granted'; readonly tokens: number; readonly waitedMs: number }
  | { readonly kind: 'waiting'; readonly retryMs: number }
  | { readonly kind: 'parked'; readonly expectedMs: number }
  /** The limiter does not know of this wait, or not any more: ask again. */
  | { readonly kind: 'unknown' };

/** A call that waits in this process. `waiter` is the run, or distinguishes two calls of one run. */
export interface Waiting {
  readonly waiter: string;
  readonly grantId: string;
}

/** `grantId` is absent for a call that was made without asking. */
interface EndedGrant {
  readonly grantId: string | undefined;
  readonly ageMs: number;
  readonly freed: number;
}

/** The limiters that all processes share. */
export type Limiters = ReturnType<typeof redisLimiters>;

/** What is known after a settlement; 0: nothing. */
export type Learnt = Awaited<ReturnType<Limiters['settle']>>;

const scripts = {
  ask: loadScript(import.meta.url, './ask.lua'),
  poll: loadScript(import.meta.url, './poll.lua'),
  away: loadScript(import.meta.url, './end-wait.lua'),
  park: loadScript(import.meta.url, './park.lua'),
  leave: loadScript(import.meta.url, './leave.lua'),
  settle: loadScript(import.meta.url, './settle.lua'),
  dispatch: loadScript(import.meta.url, './dispatch.lua'),
};

/** Limiters that were not used for so long are no longer listed: their state is gone, too. */
export const usedTtlMs = 86_400_000;
/** How exact that is. */
const notedEveryMs = 60_000;
/** In the order in which the scripts name them. */
export const parts = [
  'state',
  'window',
  'queue',
  'waiters',
  'tenants',
  'past',
  'leases',
  'grants',
  'seats',
  'wake',
] as const;

/**
 * The limiters in Redis: each under one hash tag, all changes by scripts, all times by the clock of Redis. Leases of waiters that
 * are not polled lapse after 4 s, those of grants after 60 s. Throws `queue_unavailable`.
 */
export function redisLimiters({ redis, keys }: KeySpace) {
  const run: Run = async (name, limiter, args) => {
    const own = parts.map((part) => keys.limiter(limiter, part));
    return await runScript(redis, scripts[name], own, args, { doing: `${name} at a limiter` });
  };
  const notedAt = new Map<string, number>();
  const noteUse = async (limiter: string): Promise<void> => {
    const now = Date.now();
    if (now - (notedAt.get(limiter) ?? 0) < notedEveryMs) return;
    notedAt.set(limiter, now);
    const note = redis.multi().zadd(keys.limitersUsed, now, limiter);
    note.zremrangebyscore(keys.limitersUsed, '-inf', now - usedTtlMs).pexpire(keys.limitersUsed, usedTtlMs);
    await note.exec();
  };
  return withNamedErrors('limiters', {
    /** `freed`: calls that this process made without asking since the last time. */
    async ask({ waiter, grantId }: Waiting, request: GrantRequest, maxInlineWaitMs: number, freed: number) {
      const { limiter, limits, tenant, weight, promptTokens, maxOutputTokens } = request;
      const about = [waiter, grantId, tenant, weight, promptTokens, maxOutputTokens];
      const waitMs = Math.max(0, Math.round(maxInlineWaitMs));
      const answer = answerOf(await run('ask', limiter, [...configured(limits), ...about, waitMs, freed]));
      // It is listed for people; no call waits for that.
      void noteUse(limiter).catch(() => notedAt.delete(limiter));
      return answer;
    },
    /** Renews the waiters and the grants, gives out what there is, and answers for each waiter. */
    async poll(limiter: string, limits: ProviderLimits, waiting: readonly Waiting[], grantIds: readonly string[]) {
      const pairs = waiting.flatMap(({ waiter, grantId }) => [waiter, grantId]);
      const reply = await run('poll', limiter, [...configured(limits), waiting.length, ...pairs, ...grantIds]);
      const [retryMs, ...answers] = reply as readonly [number, ...unknown[]];
      return { retryMs, answers: answers.map(answerOf) };
    },
    /** Ends a wait: granted meanwhile, or parked, and then its position is kept for a while. */
    async stepAway(limiter: string, { waiter, grantId }: Waiting): Promise<LimiterAnswer> {
      return answerOf(await run('away', limiter, [waiter, grantId]));
    },
    async park({ limiter, limits, runId, tenant, weight, promptTokens, maxOutputTokens }: GrantRequest): Promise<void> {
      await run('park', limiter, [...configured(limits), runId, tenant, weight, promptTokens, maxOutputTokens]);
      // After the script: a dispatch that takes the name off the list looks once more afterwards.
      await redis.sadd(keys.limiters, limiter);
    },
    async leave(runId: string): Promise<void> {
      const limiters = await redis.smembers(keys.limiters);
      await Promise.all(limiters.map((limiter) => run('leave', limiter, [runId])));
    },
    async settle(limiter: string, limits: ProviderLimits, ended: EndedGrant, outcome: GrantOutcome) {
      const args = [...configured(limits), ended.grantId ?? '', ended.ageMs, ...outcomeArgs(outcome, ended.freed)];
      const reply = await run('settle', limiter, args);
      const [cooldownMs = 0, requestsPerMinute = 0, tokensPerMinute = 0, requestsPerWindow = 0] =
        reply as readonly number[];
      return { cooldownMs, requestsPerMinute, tokensPerMinute, requestsPerWindow };
    },
    /** Takes the runs to wake, by limiter. */
    async dispatch(): Promise<ReadonlyMap<string, readonly string[]>> {
      const limiters = await redis.smembers(keys.limiters);
      return new Map(
        await Promise.all(limiters.map(async (name) => [name, await dispatchOne(name, run, { redis, keys })] as const)),
      );
    },
  });
}

type Run = (name: keyof typeof scripts, limiter: string, args: readonly (string | number)[]) => Promise<unknown>;

async function dispatchOne(limiter: string, run: Run, { redis, keys }: KeySpace): Promise<readonly string[]> {
  const look = async () => (await run('dispatch', limiter, [])) as readonly [waiting: number, ...runIds: string[]];
  const [waiting, ...runIds] = await look();
  if (waiting > 0) return runIds;
  // A run may have parked meanwhile; one that parks after this second look lists the name again.
  await redis.srem(keys.limiters, limiter);
  const [since, ...more] = await look();
  if (since > 0) await redis.sadd(keys.limiters, limiter);
  return [...runIds, ...more];
}

function outcomeArgs({ usedTokens = -1, outputTokens = -1, unused, limited, report }: GrantOutcome, freed: number) {
  const windows = [report?.requests, report?.tokens].flatMap((window) => [
    window?.limit ?? -1,
    window?.remaining ?? -1,
    Math.ceil(window?.resetMs ?? -1),
  ]);
  const retryAfterMs = Math.ceil(limited?.retryAfterMs ?? -1);
  return [usedTokens, outputTokens, unused ? 1 : 0, limited ? 1 : 0, retryAfterMs, freed, ...windows];
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
