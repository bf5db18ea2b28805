import type { Clock } from '../../shared/base/clock.ts';
import { RunError } from '../../shared/base/errors.ts';
import type { Log } from '../../shared/base/log.ts';
import type { Attempt } from '../../shared/contract/journal/journal.ts';
import type { Usage } from '../../shared/contract/money.ts';
import { asLlmError, nameOf, type Candidate } from './candidate.ts';
import type { Permit, Walk } from './chain-call.ts';
import { cleanAnswer, CleanParts, soundUsage } from './clean-answer.ts';
import { costOf, type Price } from './cost.ts';
import { cancelledCall, type LlmError } from './errors.ts';
import type { LlmAnswer, LlmPart, LlmRequest } from './provider.ts';

export type Granted = Extract<Permit, { kind: 'go' }>;

export interface Answered {
  readonly attempt: Attempt;
  readonly answer: LlmAnswer;
}
export interface Failed {
  readonly attempt: Attempt;
  readonly error: LlmError;
  /** What ends the step when this failure is final. */
  readonly thrown: LlmError | RunError;
  /** A part of an answer has already been shown. */
  readonly seen: boolean;
}

/** Makes one call and settles its permit, whatever comes of the call. */
export async function makeAttempt(
  candidate: Candidate,
  request: LlmRequest,
  permit: Granted,
  walk: Walk,
  price: Price | undefined,
  { clock, log }: { readonly clock: Clock; readonly log?: Log | undefined },
): Promise<Answered | Failed> {
  const { call, signal, attemptNumber } = walk;
  const { provider, model } = candidate;
  const startedMs = clock.monotonic();
  const record = (usage: Usage | undefined, providerRequestId: string | undefined) => ({
    ...identity(candidate, walk),
    providerRequestId,
    ...paid(price, usage),
    latencyMs: Math.max(0, Math.round(clock.monotonic() - startedMs)),
  });
  let seen = false;
  const parts = new CleanParts((part) => call.onPart(part, model));
  const onPart = (part: LlmPart) => {
    seen = true;
    parts.take(part);
  };
  try {
    const answer = cleanAnswer(await provider.generate(request, onPart, signal));
    parts.end();
    if (signal.aborted) throw cancelledCall(provider.id, signal, answer.usage);
    await permit.settle({ ...paid(price, answer.usage), rateLimit: answer.rateLimit });
    const { usage, providerRequestId, finishReason } = answer;
    return { answer, attempt: { ...record(usage, providerRequestId), outcome: 'succeeded', finishReason } };
  } catch (thrown) {
    const error = asLlmError(thrown, provider.id, signal);
    error.usage = soundUsage(error.usage);
    const { kind, message, status, providerRequestId } = error;
    const about = { provider: provider.id, model, attemptNumber, kind, status, providerRequestId };
    log?.warn(about, 'model attempt failed');
    const made = record(error.usage, providerRequestId);
    const attempt: Attempt = { ...made, outcome: 'failed', error: { kind, message, status } };
    await permit.settle({ ...paid(price, error.usage), rateLimit: error.rateLimit, error });
    return { attempt, error, thrown: thrown instanceof RunError ? thrown : error, seen };
  }
}

/** Settles the permit of a call that is not made because the run was stopped. Answers why. */
export async function abandoned({ provider }: Candidate, permit: Granted, signal: AbortSignal): Promise<LlmError> {
  const error = cancelledCall(provider.id, signal);
  await permit.settle({ usage: undefined, costMicrocents: 0, priced: true, rateLimit: undefined, error });
  return error;
}

export function skippedAttempt(candidate: Candidate, skipReason: string, walk: Walk): Attempt {
  const about = identity(candidate, walk);
  return { ...about, outcome: 'skipped', costMicrocents: 0, priced: false, latencyMs: 0, skipReason };
}

function paid(price: Price | undefined, usage: Usage | undefined) {
  return { usage, costMicrocents: usage && price ? costOf(usage, price) : 0, priced: price !== undefined };
}

function identity(candidate: Candidate, { attemptNumber, call: { step }, request: { requestId } }: Walk) {
  return { attemptNumber, step, ...nameOf(candidate), requestId };
}
