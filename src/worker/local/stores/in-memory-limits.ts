import { randomUUID } from 'node:crypto';
import type { Clock } from '../../../shared/base/clock.ts';
import type { ProviderLimits } from '../../../shared/contract/limits.ts';
import type { Breakers } from '../../../shared/state/limits/breakers.ts';
import type { RateLimiter, GrantRequest } from '../../../shared/state/limits/rate/rate-limiter.ts';

const windowMs = 60_000;
/** After a refusal without a time: at first, and within which bounds. */
const [usualCooldownMs, shortestCooldownMs, longestCooldownMs] = [1_000, 250, 60_000];
/** How often a call that waits for one in flight looks again. */
const lookMs = 50;
/** Answers are rarely as long as they may be. What a call really used replaces this. */
const usualAnswerTokens = 1_024;

interface Call {
  readonly id: string;
  readonly atMs: number;
  tokens: number;
}

/** What was called at one provider for one model. */
interface Counter {
  calls: Call[];
  inFlight: number;
  coolUntilMs: number;
}

/**
 * Rate limits of one process: counts the calls in flight and those of the last window, and waits as long as a provider asked
 * for when it refused one. Nothing is learnt, shared between tenants or parked: a call waits where it is.
 */
export function inMemoryRateLimiter(clock: Clock): RateLimiter {
  const counters = new Map<string, Counter>();

  function counterOf(limiter: string): Counter {
    const counter = counters.get(limiter) ?? { calls: [], inFlight: 0, coolUntilMs: 0 };
    counters.set(limiter, counter);
    return counter;
  }

  return {
    async acquire(request, maxInlineWaitMs, signal) {
      const { limiter, tenant } = request;
      const counter = counterOf(limiter);
      const askedMs = clock.monotonic();
      for (;;) {
        signal.throwIfAborted();
        const nowMs = clock.monotonic();
        const waitMs = blockedMs(counter, request, nowMs);
        if (waitMs === 0) {
          const call = { id: randomUUID(), atMs: nowMs, tokens: expectedTokens(request) };
          if (hasWindow(request.limits)) counter.calls.push(call);
          counter.inFlight += 1;
          const grant = { id: call.id, limiter, tenant, tokens: call.tokens, waitedMs: nowMs - askedMs };
          return { kind: 'granted', grant };
        }
        if (nowMs - askedMs + waitMs > maxInlineWaitMs) return { kind: 'parked', expectedMs: Math.ceil(waitMs) };
        await clock.sleep(Math.min(waitMs, lookMs), signal);
      }
    },
    async settle({ id, limiter }, { usedTokens, unused, limited }) {
      const counter = counterOf(limiter);
      counter.inFlight -= 1;
      if (unused) counter.calls = counter.calls.filter((call) => call.id !== id);
      const call = counter.calls.find((one) => one.id === id);
      if (call) call.tokens = usedTokens ?? call.tokens;
      if (!limited) return;
      const waitMs = Math.min(longestCooldownMs, Math.max(shortestCooldownMs, limited.retryAfterMs ?? usualCooldownMs));
      counter.coolUntilMs = Math.max(counter.coolUntilMs, clock.monotonic() + waitMs);
    },
    async park() {},
    async leave() {},
    dispatch: async () => [],
    async [Symbol.asyncDispose]() {},
  };
}

/** Milliseconds until another look is worth it; 0: the call may be made. */
function blockedMs(counter: Counter, { limits, ...request }: GrantRequest, nowMs: number): number {
  const { requestsPerMinute = Infinity, tokensPerMinute = Infinity, maxInFlight = Infinity } = limits;
  const lengthMs = limits.windowMs ?? windowMs;
  counter.calls = counter.calls.filter(({ atMs }) => atMs > nowMs - lengthMs);
  const [oldest] = counter.calls;
  const share = lengthMs / windowMs;
  const tokens = counter.calls.reduce((sum, call) => sum + call.tokens, expectedTokens({ limits, ...request }));
  const isFull = counter.calls.length + 1 > Math.max(1, requestsPerMinute * share) || tokens > tokensPerMinute * share;
  // A call that is larger than a whole window is made when there is nothing else.
  const windowWaitMs = oldest && isFull ? oldest.atMs + lengthMs - nowMs : 0;
  const flightWaitMs = counter.inFlight >= maxInFlight ? lookMs : 0;
  return Math.max(0, counter.coolUntilMs - nowMs, windowWaitMs, flightWaitMs);
}

function hasWindow({ requestsPerMinute, tokensPerMinute }: ProviderLimits): boolean {
  return requestsPerMinute !== undefined || tokensPerMinute !== undefined;
}

function expectedTokens({ promptTokens, maxOutputTokens }: GrantRequest): number {
  return promptTokens + Math.min(maxOutputTokens, usualAnswerTokens);
}

/** One process has no fleet to warn of a model that fails: its fallback models are tried call by call. */
export const noBreakers: Breakers = {
  admit: async () => ({ kind: 'closed' }),
  async report() {},
  states: () => new Map(),
  async [Symbol.asyncDispose]() {},
};
