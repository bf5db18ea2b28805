import type { Clock } from '../../shared/clock.ts';
import { RunError } from '../../shared/errors.ts';
import type { Attempt } from '../../shared/journal.ts';
import type { Log } from '../../shared/log.ts';
import type { Usage } from '../../shared/money.ts';
import { asLlmError, fallbackFrom, followUp, reasonToSkip, requestFor } from './candidate.ts';
import type { Candidate, ChainRequest, Fallback } from './candidate.ts';
import { costOf, type PriceLookup } from './cost.ts';
import { cancelledCall, LlmError } from './errors.ts';
import type { LlmAnswer, LlmPart } from './provider.ts';
import { retryDelayMs } from './retry.ts';

export interface ChainDeps {
  readonly clock: Clock;
  readonly price: PriceLookup;
  readonly log?: Log;
  /**
   * Asked once per provider when it refuses the credentials. `true` (they were renewed) grants one more attempt;
   * anything else, a throw included, leaves the refusal final.
   */
  readonly onAuthError?: (provider: string, signal: AbortSignal) => Promise<boolean>;
  /** 0 to 1, for the jitter of waits. */
  readonly random?: () => number;
}

/** The attempt that will follow a failed one. */
export interface NextAttempt {
  readonly attemptNumber: number;
  readonly provider: string;
  readonly model: string;
  readonly delayMs: number;
  /** Why there is another attempt. */
  readonly error: LlmError;
}

/** One step's use of the chain. The callbacks are called in the order in which things happen. */
export interface ChainCall {
  readonly step: number;
  /** Number of the first attempt. Skipped candidates take no number. */
  readonly firstAttemptNumber: number;
  onPart(part: LlmPart, model: string): void;
  /** Once for every attempt and skip, after it, and before the wait for the next one. */
  onAttempt(attempt: Attempt, next?: NextAttempt): void;
  /** Before anything is sent. A throw ends the step with that error and records no attempt. */
  beforeAttempt?(
    candidate: { readonly provider: string; readonly model: string },
    attemptNumber: number,
    signal: AbortSignal,
  ): Promise<void>;
  /** When another candidate takes over, before its first attempt. */
  onFallback?(transition: Fallback): void;
}

export interface ChainResult {
  readonly answer: LlmAnswer;
  readonly provider: string;
  readonly model: string;
  readonly attempts: readonly Attempt[];
}

/** One walk along the plan. */
interface Walk {
  readonly request: ChainRequest;
  readonly call: ChainCall;
  readonly signal: AbortSignal;
  readonly attempts: Attempt[];
  attemptNumber: number;
}

interface Answered {
  readonly attempt: Attempt;
  readonly answer: LlmAnswer;
}
interface Failed {
  readonly attempt: Attempt;
  readonly error: LlmError;
  /** What ends the step when this failure is final. */
  readonly thrown: LlmError | RunError;
  /** A part of an answer has already been shown. */
  readonly seen: boolean;
}

/**
 * The ordered plan of models for one run. The only place that retries a model call: waits and retries within an entry,
 * goes on to the next entry when one is used up, stops at errors that no other attempt can mend, and never tries again
 * once a part of an answer has been shown. One call at a time; it remembers the last provider over the steps of a run.
 */
export class FallbackChain {
  readonly #candidates: readonly Candidate[];
  readonly #deps: ChainDeps;
  readonly #renewed = new Set<string>();
  #lastProvider: string | undefined;
  #busy = false;

  /** Throws `invalid_config` for an empty plan and for attempts that are not a whole number of at least 1. */
  constructor(candidates: readonly Candidate[], deps: ChainDeps) {
    if (candidates.length === 0) throw new RunError('invalid_config', 'the plan of models is empty');
    for (const { model, maxAttempts } of candidates) {
      if (!Number.isInteger(maxAttempts) || maxAttempts < 1) {
        throw new RunError('invalid_config', `the attempts for model ${model} must be a whole number of at least 1`);
      }
    }
    this.#candidates = candidates;
    this.#deps = deps;
  }

  /**
   * Resolves with the first whole answer. Throws the last `LlmError` when there is none, of kind `cancelled` as soon as
   * the signal is aborted, also during a wait. Throws `concurrent_run` while another call is going on.
   */
  async run(request: ChainRequest, call: ChainCall, signal: AbortSignal): Promise<ChainResult> {
    if (this.#busy) throw new RunError('concurrent_run', 'this chain of models is already in use');
    this.#busy = true;
    try {
      return await this.#walk({ request, call, signal, attempts: [], attemptNumber: call.firstAttemptNumber });
    } finally {
      this.#busy = false;
    }
  }

  async #walk(walk: Walk): Promise<ChainResult> {
    let last: { readonly candidate: Candidate; readonly error: LlmError } | undefined;
    for (const [position, candidate] of this.#candidates.entries()) {
      const skipReason = reasonToSkip(candidate, walk.request);
      if (skipReason !== undefined) {
        this.#skip(candidate, skipReason, walk);
        continue;
      }
      if (last)
        walk.call.onFallback?.(fallbackFrom(last.candidate, last.error, candidate, walk.call.step, walk.attemptNumber));
      const end = await this.#tryEntry(candidate, position, walk);
      if ('answer' in end)
        return { answer: end.answer, provider: candidate.provider.id, model: candidate.model, attempts: walk.attempts };
      last = { candidate, error: end.error };
    }
    throw last?.error ?? new LlmError('unknown', 'none', 'no candidate model can serve this request');
  }

  /** Tries one candidate until it answers or is used up. Throws when nothing may follow. */
  async #tryEntry(candidate: Candidate, position: number, walk: Walk): Promise<Answered | Failed> {
    const { call, signal } = walk;
    for (let index = 0, allowed = candidate.maxAttempts; ; index++) {
      const tried = await this.#try(candidate, walk);
      walk.attempts.push(tried.attempt);
      walk.attemptNumber++;
      if ('answer' in tried) {
        call.onAttempt(tried.attempt);
        return tried;
      }
      const renewed = await this.#credentialsRenewed(tried, candidate, signal);
      if (renewed) allowed++;
      const verdict = renewed ? 'retry' : followUp(tried.error, tried.seen, allowed - index - 1);
      const next =
        verdict === 'retry' ? candidate : verdict === 'next' ? this.#eligibleAfter(position, walk.request) : undefined;
      if (!next) {
        call.onAttempt(tried.attempt);
        throw tried.thrown;
      }
      const { error } = tried;
      const delayMs =
        next === candidate && !renewed
          ? retryDelayMs(index, candidate.backoff, error.retryAfterMs, this.#deps.random ?? Math.random)
          : 0;
      call.onAttempt(tried.attempt, {
        attemptNumber: walk.attemptNumber,
        provider: next.provider.id,
        model: next.model,
        delayMs,
        error,
      });
      if (next !== candidate) return tried;
      await this.#wait(delayMs, candidate.provider.id, signal);
    }
  }

  async #try(candidate: Candidate, walk: Walk): Promise<Answered | Failed> {
    const { call, signal, attemptNumber } = walk;
    const { provider, model } = candidate;
    if (signal.aborted) throw cancelledCall(provider.id, signal);
    await call.beforeAttempt?.({ provider: provider.id, model }, attemptNumber, signal);
    if (signal.aborted) throw cancelledCall(provider.id, signal);
    const outgoing = requestFor(candidate, walk.request, this.#lastProvider);
    this.#lastProvider = provider.id;
    const startedMs = this.#deps.clock.monotonic();
    const record = (usage: Usage | undefined) => ({
      ...identity(candidate, walk),
      ...this.#paid(candidate, usage),
      latencyMs: Math.max(0, Math.round(this.#deps.clock.monotonic() - startedMs)),
    });
    let seen = false;
    const onPart = (part: LlmPart) => {
      seen = true;
      call.onPart(part, model);
    };
    try {
      const answer = await provider.generate(outgoing, onPart, signal);
      if (signal.aborted) throw cancelledCall(provider.id, signal, answer.usage);
      return { answer, attempt: { ...record(answer.usage), outcome: 'succeeded', finishReason: answer.finishReason } };
    } catch (thrown) {
      const error = asLlmError(thrown, provider.id, signal);
      const { kind, message, status } = error;
      this.#deps.log?.warn({ provider: provider.id, model, attemptNumber, kind, status }, 'model attempt failed');
      const shown = { kind, message, ...(status !== undefined && { status }) };
      const attempt: Attempt = { ...record(error.usage), outcome: 'failed', error: shown };
      return { attempt, error, thrown: thrown instanceof RunError ? thrown : error, seen };
    }
  }

  #skip(candidate: Candidate, skipReason: string, walk: Walk): void {
    const attempt: Attempt = {
      ...identity(candidate, walk),
      outcome: 'skipped',
      costMicrocents: 0,
      priced: false,
      latencyMs: 0,
      skipReason,
    };
    walk.attempts.push(attempt);
    walk.call.onAttempt(attempt);
  }

  #paid(candidate: Candidate, usage: Usage | undefined): Pick<Attempt, 'usage' | 'costMicrocents' | 'priced'> {
    const price = this.#deps.price(candidate.provider.id, candidate.model, new Date(this.#deps.clock.now()));
    return {
      ...(usage && { usage }),
      costMicrocents: usage && price ? costOf(usage, price) : 0,
      priced: price !== undefined,
    };
  }

  #eligibleAfter(position: number, request: ChainRequest): Candidate | undefined {
    return this.#candidates.slice(position + 1).find((candidate) => reasonToSkip(candidate, request) === undefined);
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

function identity(candidate: Candidate, walk: Walk) {
  const { attemptNumber, call, request } = walk;
  return {
    attemptNumber,
    step: call.step,
    provider: candidate.provider.id,
    model: candidate.model,
    requestId: request.requestId,
  };
}
