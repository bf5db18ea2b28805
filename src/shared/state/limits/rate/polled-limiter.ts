import { orLate } from '../../../base/deadline.ts';
import { randomUUID } from 'node:crypto';
import { defined } from '../../../base/collections.ts';
import type { Clock } from '../../../base/clock.ts';
import { assertNever, RunError } from '../../../base/errors.ts';
import type { ProviderLimits } from '../../../contract/limits.ts';
import { redisLimiters, type Learnt, type LimiterAnswer, type Limiters, type Waiting } from './limiters.ts';
import type { Acquired, RateLimiter, Grant, GrantOutcome, GrantRequest } from './rate-limiter.ts';
import type { KeySpace } from '../../keys.ts';

/** Is called with what the rate limiter does; for metrics. Must not throw. */
export interface RateLimiterObserver {
  /** A grant was given after this long, counted from the first time that the run asked. */
  waited?(limiter: string, seconds: number): void;
  parked?(limiter: string): void;
  woken?(limiter: string, runs: number): void;
  /** The provider refused a call, and the fleet does not call it for this long. Once per cooldown in the fleet. */
  cooled?(limiter: string, ms: number): void;
  /** A limit that is not configured, as it is known now. */
  learnt?(limiter: string, limits: ProviderLimits): void;
}

interface RateLimiterOptions {
  readonly limiters: Limiters;
  readonly clock: Clock;
  readonly observe?: RateLimiterObserver | undefined;
}

/** The rate limiter whose limiters live in Redis, shared by all workers. */
export function redisRateLimiter({
  redis,
  keys,
  ...options
}: Omit<RateLimiterOptions, 'limiters'> & KeySpace): PolledRateLimiter {
  return new PolledRateLimiter({ ...options, limiters: redisLimiters({ redis, keys }) });
}

/** How long it may go unnoticed here that a limiter without known limits has got one, in milliseconds. */
const freeForMs = 1_000;
const longestPollMs = 50;
const shortestPollMs = 5;
const renewMs = 15_000;
/** A store that does not answer for so long after the caller's own wait is away. */
const answerMs = 2_000;

interface LocalWaiter extends Waiting {
  readonly request: GrantRequest;
  readonly local: LocalLimiter;
  readonly signal: AbortSignal;
  readonly settled: PromiseWithResolvers<LimiterAnswer>;
}

/** What one process knows of a limiter. */
class LocalLimiter {
  readonly name: string;
  limits: ProviderLimits = {};
  freeUntil = 0;
  freed = 0;
  learnt = '';
  renewedAt = 0;
  polling: AbortController | undefined;
  pollAt = 0;
  readonly waiters = new Map<string, LocalWaiter>();
  /** Names of those who ask or wait here. */
  readonly present = new Set<string>();
  /** Grants that are not settled, with the time at which they were given. */
  readonly grants = new Map<string, number>();

  constructor(name: string) {
    this.name = name;
  }

  takeFreed(): number {
    const { freed } = this;
    this.freed = 0;
    return freed;
  }
}

/**
 * The rate limiter of one process over limiters that many share: waits for those who ask here, with one poll for all of them,
 * and keeps their leases and grants alive.
 */
export class PolledRateLimiter implements RateLimiter {
  readonly #limiters: Limiters;
  readonly #clock: Clock;
  readonly #observe: RateLimiterObserver;
  readonly #locals = new Map<string, LocalLimiter>();
  readonly #renewal: NodeJS.Timeout;
  #closed = false;

  constructor({ limiters, clock, observe = {} }: RateLimiterOptions) {
    this.#limiters = limiters;
    this.#clock = clock;
    this.#observe = observe;
    this.#renewal = setInterval(() => {
      for (const local of this.#locals.values()) if (local.grants.size > 0) this.#poll(local, 0);
    }, renewMs).unref();
  }

  async acquire(request: GrantRequest, maxInlineWaitMs: number, signal: AbortSignal): Promise<Acquired> {
    signal.throwIfAborted();
    const { limiter, limits, runId } = request;
    const local = this.#local(limiter);
    local.limits = limits;
    if (isUnlimited(limits) && this.#clock.monotonic() < local.freeUntil) return this.#free(local, request);

    const grantId = randomUUID();
    // Two calls of one run have different names; what was promised to the run goes to the first.
    const waiter = local.present.has(runId) ? `${runId}#${grantId}` : runId;
    const waiting: LocalWaiter = { waiter, grantId, request, local, signal, settled: Promise.withResolvers() };
    local.present.add(waiter);
    try {
      return await this.#acquire(waiting, maxInlineWaitMs);
    } finally {
      local.present.delete(waiter);
    }
  }

  async park(request: GrantRequest): Promise<void> {
    await this.#limiters.park(request);
  }

  async leave(runId: string): Promise<void> {
    await this.#limiters.leave(runId);
  }

  async settle(grant: Grant, outcome: GrantOutcome): Promise<void> {
    const local = this.#local(grant.limiter);
    const grantedAt = local.grants.get(grant.id) ?? Number(/^free:(\d+)/.exec(grant.id)?.[1] ?? 0);
    local.grants.delete(grant.id);
    const free = grant.id.startsWith('free:');
    if (free && !reportsLimit(outcome)) return;
    const about = {
      grantId: free ? undefined : grant.id,
      ageMs: Math.max(0, Math.round(this.#clock.monotonic() - grantedAt)),
      freed: local.takeFreed(),
    };
    const sent = this.#limiters.settle(grant.limiter, local.limits, about, outcome);
    // What was learnt is worth a look at once: others may be waiting here for what was given back.
    const learnt = sent.then((result) => {
      this.#observeLearnt(local, result);
      if (local.waiters.size > 0) this.#poll(local, 0);
    });
    await this.#within(answerMs, learnt, 'settle a grant');
  }

  async dispatch(): Promise<readonly string[]> {
    const woken = await this.#limiters.dispatch();
    for (const [limiter, runs] of woken) if (runs.length > 0) this.#observe.woken?.(limiter, runs.length);
    return [...woken.values()].flat();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    clearInterval(this.#renewal);
    for (const local of this.#locals.values()) local.polling?.abort();
  }

  #local(limiter: string): LocalLimiter {
    const known = this.#locals.get(limiter);
    if (known) return known;
    const local = new LocalLimiter(limiter);
    this.#locals.set(limiter, local);
    return local;
  }

  async #acquire(waiter: LocalWaiter, maxInlineWaitMs: number): Promise<Acquired> {
    const until = this.#clock.monotonic() + maxInlineWaitMs;
    let answer = await this.#ask(waiter, maxInlineWaitMs);
    while (answer.kind === 'waiting' || answer.kind === 'unknown') {
      const leftMs = Math.max(0, until - this.#clock.monotonic());
      if (answer.kind === 'unknown') answer = await this.#ask(waiter, leftMs);
      else answer = await this.#wait(waiter, answer.retryMs, leftMs);
    }
    return this.#given(waiter, answer);
  }

  #free(local: LocalLimiter, { limiter, tenant }: GrantRequest): Acquired {
    local.freed++;
    this.#observe.waited?.(limiter, 0);
    const id = `free:${Math.round(this.#clock.monotonic())}:${randomUUID()}`;
    return { kind: 'granted', grant: { id, limiter, tenant, tokens: 0, waitedMs: 0 } };
  }

  #given(
    { grantId, request, local }: LocalWaiter,
    answer: Exclude<LimiterAnswer, { kind: 'waiting' | 'unknown' }>,
  ): Acquired {
    const { limiter, tenant } = request;
    switch (answer.kind) {
      case 'free':
        local.freeUntil = this.#clock.monotonic() + freeForMs;
        return this.#free(local, request);
      case 'granted': {
        const { tokens, waitedMs } = answer;
        local.grants.set(grantId, this.#clock.monotonic());
        this.#observe.waited?.(limiter, waitedMs / 1000);
        return { kind: 'granted', grant: { id: grantId, limiter, tenant, tokens, waitedMs } };
      }
      case 'parked':
        this.#observe.parked?.(limiter);
        return { kind: 'parked', expectedMs: answer.expectedMs };
      default:
        return assertNever(answer);
    }
  }

  async #ask(waiter: LocalWaiter, maxInlineWaitMs: number): Promise<LimiterAnswer> {
    const asked = this.#limiters.ask(waiter, waiter.request, maxInlineWaitMs, waiter.local.takeFreed());
    try {
      return await this.#within(Math.max(maxInlineWaitMs, answerMs), asked, 'ask for a grant', waiter.signal);
    } catch (error) {
      void this.#returnGrant(waiter, asked);
      throw error;
    }
  }

  async #wait(waiter: LocalWaiter, retryMs: number, maxInlineWaitMs: number): Promise<LimiterAnswer> {
    const { local, signal } = waiter;
    local.waiters.set(waiter.grantId, waiter);
    this.#poll(local, retryMs);
    try {
      const answer = await orLate(maxInlineWaitMs, waiter.settled.promise, () => undefined, { signal });
      if (answer) return answer;
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      local.waiters.delete(waiter.grantId);
    }
    const left = this.#limiters.stepAway(local.name, waiter);
    if (!signal.aborted) return await this.#within(answerMs, left, 'end a wait for a grant');
    void this.#returnGrant(waiter, left);
    throw signal.reason;
  }

  /** Of an answer without a waiter. What fails here ends with its lease. */
  async #returnGrant(waiter: LocalWaiter, settled: Promise<LimiterAnswer>): Promise<void> {
    const { limiter, tenant } = waiter.request;
    try {
      const late = await settled;
      const grant = { id: waiter.grantId, limiter, tenant, tokens: 0, waitedMs: 0 };
      if (late.kind === 'granted') await this.settle(grant, { unused: true });
      if (late.kind === 'waiting') await this.#returnGrant(waiter, this.#limiters.stepAway(limiter, waiter));
    } catch {
      return;
    }
  }

  /** Polls after `afterMs`, and then for as long as a call waits here. One loop per limiter. */
  #poll(local: LocalLimiter, afterMs: number): void {
    const dueAt = this.#clock.monotonic() + Math.min(longestPollMs, afterMs);
    if (this.#closed || (local.polling && local.pollAt <= dueAt)) return;
    local.polling?.abort();
    local.polling = new AbortController();
    // Aborted: a sooner one has replaced it.
    this.#pollFrom(local, local.polling, dueAt).catch(() => {});
  }

  async #pollFrom(local: LocalLimiter, polling: AbortController, dueAt: number): Promise<void> {
    local.pollAt = dueAt;
    while (local.polling === polling) {
      await this.#clock.sleep(Math.max(0, local.pollAt - this.#clock.monotonic()), polling.signal);
      const retryMs = await this.#pollOnce(local);
      if (local.polling !== polling) return;
      local.pollAt = this.#clock.monotonic() + Math.min(longestPollMs, Math.max(shortestPollMs, retryMs));
      if (local.waiters.size === 0) local.polling = undefined;
    }
  }

  async #pollOnce(local: LocalLimiter): Promise<number> {
    const waiting = [...local.waiters.values()];
    const renew = this.#clock.monotonic() - local.renewedAt >= renewMs;
    if (renew) local.renewedAt = this.#clock.monotonic();
    try {
      const grantIds = renew ? [...local.grants.keys()] : [];
      const { retryMs, answers } = await this.#limiters.poll(local.name, local.limits, waiting, grantIds);
      for (const [index, waiter] of waiting.entries()) {
        const answer = answers[index];
        if (answer && answer.kind !== 'waiting') waiter.settled.resolve(answer);
      }
      return retryMs;
    } catch {
      // Each waiter ends its wait by itself, with an error that names the cause.
      return longestPollMs;
    }
  }

  #observeLearnt(local: LocalLimiter, learnt: Learnt): void {
    const { cooldownMs, requestsPerMinute, tokensPerMinute, requestsPerWindow } = learnt;
    if (cooldownMs > 0) this.#observe.cooled?.(local.name, cooldownMs);
    if (cooldownMs > 0 || requestsPerMinute > 0 || tokensPerMinute > 0) local.freeUntil = 0;
    const perMinute = Math.floor((requestsPerWindow * 60_000) / (local.limits.windowMs ?? 60_000));
    const requests = perMinute > 0 ? Math.min(perMinute, requestsPerMinute || Infinity) : requestsPerMinute;
    const known = `${requests} ${tokensPerMinute}`;
    if (known === local.learnt || known === '0 0') return;
    local.learnt = known;
    const limits = { requestsPerMinute: requests || undefined, tokensPerMinute: tokensPerMinute || undefined };
    this.#observe.learnt?.(local.name, defined(limits));
  }

  async #within<T>(ms: number, work: Promise<T>, doing: string, signal?: AbortSignal): Promise<T> {
    const away = () => {
      throw new RunError('queue_unavailable', `Redis did not answer within ${ms} ms: ${doing}`);
    };
    return await orLate(ms, work, away, { signal });
  }
}

function isUnlimited({ requestsPerMinute, tokensPerMinute, maxInFlight }: ProviderLimits): boolean {
  return requestsPerMinute === undefined && tokensPerMinute === undefined && maxInFlight === undefined;
}

function reportsLimit({ limited, report }: GrantOutcome): boolean {
  const windows = [report?.requests, report?.tokens];
  return limited !== undefined || windows.some((window) => window?.limit !== undefined || window?.remaining === 0);
}
