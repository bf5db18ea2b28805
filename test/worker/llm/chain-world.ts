import type { Clock } from '../../../src/shared/base/clock.ts';
import type { Attempt } from '../../../src/shared/contract/journal/journal.ts';
import type { Candidate } from '../../../src/worker/llm/candidate.ts';
import type { ChainCall, NextAttempt } from '../../../src/worker/llm/chain-call.ts';
import { LlmError, type LlmErrorKind } from '../../../src/worker/llm/errors.ts';
import { FallbackChain, type ChainDeps, type ChainPast } from '../../../src/worker/llm/fallback-chain.ts';
import type { LlmAnswer, LlmPart, LlmProvider, LlmRequest } from '../../../src/worker/llm/provider.ts';

export const usage = { input: 1_000_000, output: 0, cached: 0, cacheWrite: 0, total: 1_000_000 };
export const answer: LlmAnswer = {
  message: { role: 'assistant', parts: [{ type: 'text', text: 'ok' }] },
  finishReason: 'stop',
  incompleteToolCalls: [],
  usage,
};

export type Outcome =
  | LlmErrorKind
  | 'ok'
  | ((request: LlmRequest, onPart: (part: LlmPart) => void, signal: AbortSignal) => Promise<LlmAnswer>);

/** A provider with one outcome per call, and the requests that it got. */
export function fake(id: string, outcomes: readonly Outcome[], capabilities = { tools: true, reasoning: true }) {
  const requests: LlmRequest[] = [];
  const provider: LlmProvider = {
    id,
    capabilities,
    async generate(request, onPart, signal) {
      const outcome = outcomes[requests.length];
      requests.push(request);
      if (typeof outcome === 'function') return await outcome(request, onPart, signal);
      if (outcome === 'ok') return answer;
      throw new LlmError(outcome ?? 'unknown', id, `${id} fails`);
    },
  };
  return { provider, requests };
}

/** Time that only passes in `sleep`. */
export function fakeClock(): Clock & { readonly sleeps: number[] } {
  const sleeps: number[] = [];
  let nowMs = Date.parse('2026-11-01T00:00:00Z');
  return {
    sleeps,
    now: () => nowMs,
    monotonic: () => nowMs,
    async sleep(ms, signal) {
      signal?.throwIfAborted();
      sleeps.push(ms);
      nowMs += ms;
    },
  };
}

export const price = { input: 300, output: 0, cached: 0, cacheWrite: 0 };
export const never = new AbortController().signal;

export function entry(provider: LlmProvider, model = `model-${provider.id}`, maxAttempts = 3): Candidate {
  return { provider, model, maxAttempts, backoff: 'exponential' };
}

export function world(candidates: readonly Candidate[], deps: Partial<ChainDeps> = {}, past: ChainPast = {}) {
  const clock = fakeClock();
  const chain = new FallbackChain(candidates, { clock, price: () => price, random: () => 0, ...deps }, past);
  const seen: { attempt: Attempt; next: NextAttempt | undefined }[] = [];
  const emitted: unknown[] = [];
  const run = (request: Partial<LlmRequest> = {}, call: Partial<ChainCall> = {}, signal = never) =>
    chain.run(
      {
        requestId: 'run:step:1',
        idempotencyKey: 'run:step:1',
        messages: [{ role: 'user', content: 'hi' }],
        ...request,
      },
      {
        step: 1,
        firstAttemptNumber: 1,
        onPart: (part, model) => emitted.push({ part, model }),
        onAttempt: (attempt, next) => seen.push({ attempt, next }),
        onFallback: (transition) => emitted.push(transition),
        ...call,
      },
      signal,
    );
  return { run, seen, emitted, clock };
}
