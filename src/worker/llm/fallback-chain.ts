import type { Clock } from '../../shared/base/clock.ts';
import { RunError } from '../../shared/base/errors.ts';
import type { Log } from '../../shared/base/log.ts';
import { abandoned, makeAttempt, skippedAttempt, type Answered, type Failed, type Granted } from './attempt.ts';
import {
  fallbackFrom,
  followUp,
  nameOf,
  requestFor,
  sameName,
  type Candidate,
  type ChainPolicy,
  type ChainRequest,
  type ModelName,
} from './candidate.ts';
import type { ChainCall, ChainResult, NextAttempt, Permit, Walk } from './chain-call.ts';
import type { Price, PriceLookup } from './cost.ts';
import { cancelledCall, LlmError, retryDelayMs } from './errors.ts';
import { lackOf, lackText, type InputLack } from './input-files.ts';

export type { ChainCall, ChainResult } from './chain-call.ts';

export interface ChainDeps {
  readonly clock: Clock;
  readonly price: PriceLookup;
  readonly log?: Log;
  /**
   * Asked once per provider when it refuses the credentials. `true` (they were renewed) grants one more attempt;
   * anything else, a throw included, leaves the refusal final.
   */
  readonly onAuthError?: ((provider: string, signal: AbortSignal) => Promise<boolean>) | undefined;
  /** 0 to 1, for the jitter of waits. */
  readonly random?: (() => number) | undefined;
  /** How long a provider is left alone after a 429, and a model that used up its attempts, unless it answers before. */
  readonly cooldownMs?: number;
  readonly policy?: ChainPolicy;
  /** Finds a model that a step asks for and the plan does not have. */
  readonly resolve?: (model: string, provider?: string) => Candidate | undefined;
}

/** Where an earlier segment of the run left its chain. */
export interface ChainPast {
  /** Of the last attempt that was made. */
  readonly lastProvider?: string | undefined;
  /** Of the last answer. */
  readonly serving?: ModelName | undefined;
}

const defaultCooldownMs = 30_000;

type Refused = Pick<Failed, 'error' | 'thrown'>;

/**
 * The ordered plan of models for one run. The only place that retries a model call: waits and retries within an entry,
 * goes on to the next entry when one is used up, stops at errors that no other attempt can repair, and never tries again
 * once a part of an answer has been shown, unless its policy allows it. One call at a time. Over the steps of a run it
 * remembers the last provider, and which models to leave alone for a while.
 */
export class FallbackChain {
  readonly #candidates: readonly Candidate[];
  readonly #deps: ChainDeps;
  readonly #renewed = new Set<string>();
  /** Providers, and single models as `provider/model`, with the time until which they are left alone. */
  readonly #cooling = new Map<string, number>();
  #lastProvider: string | undefined;
  /** The model that subscribers take to be in use. */
  #serving: ModelName | undefined;
  #busy = false;

  /** Throws `invalid_config` for an empty plan and for attempts that are not a whole number of at least 1. */
  constructor(candidates: readonly Candidate[], deps: ChainDeps, past: ChainPast = {}) {
    if (candidates.length === 0) throw new RunError('invalid_config', 'the plan of models is empty');
    for (const { model, maxAttempts } of candidates) {
      if (!Number.isInteger(maxAttempts) || maxAttempts < 1) {
        throw new RunError('invalid_config', `the attempts for model ${model} must be a whole number of at least 1`);
      }
    }
    // A model that is named twice is tried once, where it stands first.
    this.#candidates = candidates.filter(
      (one, index) => candidates.findIndex((two) => sameName(nameOf(one), nameOf(two))) === index,
    );
    this.#deps = deps;
    this.#lastProvider = past.lastProvider;
    this.#serving = past.serving;
  }

  /**
   * Resolves with the first whole answer. Throws the last `LlmError` when there is none, of kind `cancelled` as soon as
   * the signal is aborted, also during a wait. Throws `concurrent_run` while another call is going on.
   */
  async run(request: ChainRequest, call: ChainCall, signal: AbortSignal): Promise<ChainResult> {
    if (this.#busy) throw new RunError('concurrent_run', 'this chain of models is already in use');
    this.#busy = true;
    try {
      const plan = this.#planFor(call);
      const wanted = { ...request, primary: plan[0] && nameOf(plan[0]) };
      const attemptNumber = call.firstAttemptNumber;
      return await this.#walk({ request: wanted, call, signal, plan, attempts: [], attemptNumber, shortened: false });
    } finally {
      this.#busy = false;
    }
  }

  #planFor({ primary, only }: ChainCall): readonly Candidate[] {
    if (!primary) return this.#candidates;
    const first =
      this.#candidates.find(
        ({ model, provider }) => model === primary.model && (primary.provider ?? provider.id) === provider.id,
      ) ?? this.#deps.resolve?.(primary.model, primary.provider);
    if (!first) throw new RunError('internal', `no provider serves model ${primary.model}`);
    const others = this.#candidates.filter((candidate) => !sameName(nameOf(candidate), nameOf(first)));
    return only ? [first] : [first, ...others];
  }

  async #walk(walk: Walk): Promise<ChainResult> {
    const { call, plan } = walk;
    this.#serving ??= plan[0] && nameOf(plan[0]);
    let last: (Refused & { readonly candidate: Candidate }) | undefined;
    for (const [position, candidate] of plan.entries()) {
      const skipReason = this.#reasonToSkip(candidate, walk);
      if (skipReason !== undefined) {
        this.#skip(candidate, skipReason, walk);
        continue;
      }
      if (last && !sameName(this.#serving, nameOf(candidate))) {
        call.onFallback?.(fallbackFrom(last.candidate, last.error, candidate, call.step, walk.attemptNumber));
        this.#serving = nameOf(candidate);
      }
      const end = await this.#tryEntry(candidate, position, walk);
      if ('answer' in end) {
        for (const name of [candidate.provider.id, cooldownName(candidate)]) this.#cooling.delete(name);
        this.#serving = nameOf(candidate);
        return { answer: end.answer, provider: candidate.provider.id, model: candidate.model, attempts: walk.attempts };
      }
      this.#leaveAlone(cooldownName(candidate));
      last = { candidate, error: end.error, thrown: end.thrown };
    }
    throw last?.thrown ?? unserved(walk);
  }

  /** Tries one candidate until it answers or is used up. Throws when nothing may follow. */
  async #tryEntry(candidate: Candidate, position: number, walk: Walk): Promise<Answered | Failed | Refused> {
    const { call, signal } = walk;
    const before = (call.failedBefore ?? []).filter((attempt) => sameName(attempt, nameOf(candidate))).length;
    for (let index = 0, allowed = Math.max(1, candidate.maxAttempts - before); ; index++) {
      const permit = await this.#admit(candidate, walk);
      if (permit.kind === 'skip') {
        this.#skip(candidate, permit.reason, walk);
        const error = skippedError(candidate, permit);
        return { error, thrown: error };
      }
      const tried = await this.#try(candidate, permit, walk);
      walk.attempts.push(tried.attempt);
      walk.attemptNumber++;
      if ('answer' in tried) {
        call.onAttempt(tried.attempt);
        return tried;
      }
      let isReported = false;
      const report = (following?: NextAttempt) => {
        if (!isReported) call.onAttempt(tried.attempt, following);
        isReported = true;
      };
      if (await this.#shortened(tried, walk, report)) {
        allowed++;
        continue;
      }
      const { error } = tried;
      if (error.kind === 'rate_limit') this.#leaveAlone(candidate.provider.id);
      const renewed = await this.#credentialsRenewed(tried, candidate, signal);
      if (renewed) allowed++;
      const verdict = renewed ? 'retry' : followUp(error, tried.seen, allowed - index - 1, this.#deps.policy);
      const next = verdict === 'retry' ? candidate : verdict === 'next' && this.#eligibleAfter(position, walk);
      if (!next) {
        report();
        if (verdict === 'stop') throw tried.thrown;
        return tried;
      }
      const delayMs = next === candidate && !renewed ? this.#delayMs(candidate, index + before, error, call) : 0;
      const { provider, model } = next;
      report({ attemptNumber: walk.attemptNumber, provider: provider.id, model, delayMs, error });
      if (tried.seen) call.onReset?.(error);
      if (next !== candidate) return tried;
      await this.#wait(delayMs, candidate.provider.id, signal);
    }
  }

  /** The gate of a rate limiter that the fleet shares waits out what a 429 asked for, without holding a worker. */
  #delayMs({ backoff }: Candidate, index: number, error: LlmError, call: ChainCall): number {
    const askedMs = call.admit && error.kind === 'rate_limit' ? undefined : error.retryAfterMs;
    return retryDelayMs(index, backoff, askedMs, this.#deps.random ?? Math.random);
  }

  async #admit(candidate: Candidate, walk: Walk): Promise<Permit> {
    const { call, signal, attemptNumber } = walk;
    const { provider, model } = candidate;
    if (signal.aborted) throw cancelledCall(provider.id, signal);
    if (!call.admit) return { kind: 'go', settle: async () => {} };
    const request = requestFor(candidate, walk.request, this.#lastProvider);
    const price = this.#priceOf(provider.id, model);
    return await call.admit({ step: call.step, provider, attemptNumber, price, request }, signal);
  }

  async #try(candidate: Candidate, permit: Granted, walk: Walk): Promise<Answered | Failed> {
    const { provider, model } = candidate;
    if (walk.signal.aborted) throw await abandoned(candidate, permit, walk.signal);
    const request = requestFor(candidate, walk.request, this.#lastProvider, permit.maxOutputTokens);
    this.#lastProvider = provider.id;
    return await makeAttempt(candidate, request, permit, walk, this.#priceOf(provider.id, model), this.#deps);
  }

  #skip(candidate: Candidate, reason: string, walk: Walk): void {
    const skipped = skippedAttempt(candidate, reason, walk);
    walk.attempts.push(skipped);
    walk.call.onAttempt(skipped);
  }

  /** Why this candidate does not serve the request now, or undefined. */
  #reasonToSkip(candidate: Candidate, { plan, request }: Walk): 'no_tools' | 'cooldown' | InputLack | undefined {
    if (request.tools?.length && !candidate.provider.capabilities.tools) return 'no_tools';
    const lack = lackOf(request, candidate);
    if (lack) return lack;
    // Where there is nothing else, a cooldown would only turn a wait into a failure.
    if (plan.length === 1) return undefined;
    const now = this.#deps.clock.monotonic();
    const names = [candidate.provider.id, cooldownName(candidate)];
    return names.some((name) => (this.#cooling.get(name) ?? 0) > now) ? 'cooldown' : undefined;
  }

  #leaveAlone(name: string): void {
    this.#cooling.set(name, this.#deps.clock.monotonic() + (this.#deps.cooldownMs ?? defaultCooldownMs));
  }

  #priceOf(provider: string, model: string): Price | undefined {
    return this.#deps.price(provider, model, new Date(this.#deps.clock.now()));
  }

  #eligibleAfter(position: number, walk: Walk): Candidate | undefined {
    return walk.plan.slice(position + 1).find((candidate) => this.#reasonToSkip(candidate, walk) === undefined);
  }

  /** Is there a shorter request to try instead of one that was refused for its length? Its attempt is reported first. */
  async #shortened({ error, seen }: Failed, walk: Walk, report: () => void): Promise<boolean> {
    const { call } = walk;
    if (error.kind !== 'context_length' || seen || walk.shortened || !call.shorten) return false;
    walk.shortened = true;
    report();
    const { request, attemptNumber } = await call.shorten();
    walk.attemptNumber = attemptNumber;
    if (request) walk.request = { ...request, primary: walk.request.primary };
    return request !== undefined;
  }

  async #credentialsRenewed(failed: Failed, candidate: Candidate, signal: AbortSignal): Promise<boolean> {
    const { id } = candidate.provider;
    if (failed.error.kind !== 'auth' || failed.seen || !this.#deps.onAuthError || this.#renewed.has(id)) return false;
    this.#renewed.add(id);
    return await this.#deps.onAuthError(id, signal).catch(() => false);
  }

  async #wait(delayMs: number, provider: string, signal: AbortSignal): Promise<void> {
    if (delayMs === 0) return;
    await this.#deps.clock.sleep(delayMs, signal).catch(() => {
      throw cancelledCall(provider, signal);
    });
  }
}

/** The error of a request that was sent to no candidate at all. */
function unserved({ plan, request }: Walk): LlmError {
  const lacks = plan.map((candidate) => lackOf(request, candidate));
  // One that does read them may do so later.
  if (lacks.includes(undefined)) return new LlmError('unknown', 'none', 'no candidate model can serve this request');
  const models = plan.map(({ provider, model }) => `${provider.id}/${model}`);
  return new LlmError('bad_request', 'none', lackText(lacks, models));
}

/** The error of a candidate whose permit says skip. */
export function skippedError(
  { provider, model }: Pick<Candidate, 'provider' | 'model'>,
  { reason, retryAfterMs }: Extract<Permit, { kind: 'skip' }>,
): LlmError {
  const message = `model ${model} of provider ${provider.id} is not called for now: ${reason}`;
  return new LlmError('overloaded', provider.id, message, { code: reason, retryAfterMs });
}

function cooldownName({ provider, model }: Candidate): string {
  return `${provider.id}/${model}`;
}
