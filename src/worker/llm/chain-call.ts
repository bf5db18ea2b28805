import type { RateLimitReport } from '../../shared/contract/limits.ts';
import type { Attempt } from '../../shared/contract/journal/journal.ts';
import type { Usage } from '../../shared/contract/money.ts';
import type { Candidate, ChainRequest, Fallback } from './candidate.ts';
import type { Price } from './cost.ts';
import type { LlmError } from './errors.ts';
import type { LlmAnswer, LlmPart, LlmProvider, LlmRequest } from './provider.ts';

/** The attempt that will follow a failed one. */
export interface NextAttempt {
  readonly attemptNumber: number;
  readonly provider: string;
  readonly model: string;
  readonly delayMs: number;
  readonly error: LlmError;
}

/** An attempt that is about to be made. */
export interface PlannedAttempt {
  readonly step: number;
  readonly provider: Pick<LlmProvider, 'id' | 'credential' | 'limitsOf'>;
  readonly attemptNumber: number;
  readonly price: Price | undefined;
  /** What the call costs whatever its tokens, in microcents: media have a price by piece. */
  readonly fixedMicrocents?: number | undefined;
  /** As it would be sent. */
  readonly request: LlmRequest;
  /** The run goes on without it: it must not make the run wait, and no person has let it pass a cap. */
  readonly optional?: boolean;
  /** `holds`: with it, money for a closing call after it is held. `takes`: it is that call. */
  readonly closing?: 'holds' | 'takes' | undefined;
}

/**
 * Leave for one attempt. `maxOutputTokens` bounds the answer further than the request does. `settle` is called once, with
 * what came of it, before anything else happens, and never rejects. A skip counts as the failure of the candidate.
 */
export type Permit =
  | {
      readonly kind: 'go';
      readonly maxOutputTokens?: number | undefined;
      settle(end: AttemptEnd): Promise<void>;
    }
  | { readonly kind: 'skip'; readonly reason: string; readonly retryAfterMs?: number };

export interface AttemptEnd {
  readonly usage: Usage | undefined;
  readonly costMicrocents: number;
  readonly priced: boolean;
  readonly rateLimit: RateLimitReport | undefined;
  /** Absent: it answered. */
  readonly error?: LlmError;
}

/** One step's use of the chain. The callbacks are called in the order in which things happen. */
export interface ChainCall {
  readonly step: number;
  /** Number of the first attempt. Skipped candidates take no number. */
  readonly firstAttemptNumber: number;
  /** Attempts of this step that failed in earlier segments of the run: they count against the same limits. */
  readonly failedBefore?: readonly Pick<Attempt, 'provider' | 'model'>[];
  /** A model for this step in front of the plan. With `only` nothing else is tried. */
  readonly primary?: { readonly model: string; readonly provider?: string } | undefined;
  readonly only?: boolean | undefined;
  onPart(part: LlmPart, model: string): void;
  /** Once for every attempt and skip, after it, and before the wait for the next one. */
  onAttempt(attempt: Attempt, next?: NextAttempt): void;
  /** Asked before anything is sent. A throw ends the step with that error and records no attempt. */
  readonly admit?: ((planned: PlannedAttempt, signal: AbortSignal) => Promise<Permit>) | undefined;
  /** When the chain moves to another candidate, before its first attempt. */
  onFallback?(transition: Fallback): void;
  /**
   * Asked when a candidate refuses the request for its length, before the chain moves to another one; at most once. The same
   * request, made shorter, is then tried on the same candidate. `attemptNumber` is that of the next attempt.
   */
  shorten?(): Promise<{ readonly request: ChainRequest | undefined; readonly attemptNumber: number }>;
  /** The parts emitted so far belong to an attempt that broke off: another one begins. */
  onReset?(error: LlmError): void;
}

export interface ChainResult {
  readonly answer: LlmAnswer;
  readonly provider: string;
  readonly model: string;
  readonly attempts: readonly Attempt[];
}

export interface Walk {
  request: ChainRequest;
  readonly call: ChainCall;
  readonly signal: AbortSignal;
  readonly plan: readonly Candidate[];
  readonly attempts: Attempt[];
  attemptNumber: number;
  /** A shorter request was asked for. */
  shortened: boolean;
}
