import type { ProviderLimits, RateLimitReport } from '../../../contract/limits.ts';

export interface GrantRequest {
  /** Names the credential and model; the same on every worker. */
  readonly limiter: string;
  readonly limits: ProviderLimits;
  readonly runId: string;
  readonly tenant: string;
  /** Of the tenant, where tenants share a limit; 1 unless configured. */
  readonly weight: number;
  /** Tokens of the prompt, estimated, and the most that the answer may have. The rate limiter learns what answers really have. */
  readonly promptTokens: number;
  readonly maxOutputTokens: number;
}

export interface Grant {
  readonly id: string;
  readonly limiter: string;
  readonly tenant: string;
  readonly tokens: number;
  readonly waitedMs: number;
}

export interface GrantOutcome {
  /** What the provider counted; absent when it did not report it. */
  readonly usedTokens?: number | undefined;
  readonly outputTokens?: number | undefined;
  readonly report?: RateLimitReport | undefined;
  /** The provider answered 429: the fleet does not call it for this long. */
  readonly limited?: { readonly retryAfterMs?: number | undefined } | undefined;
  /** The call was never sent. */
  readonly unused?: boolean;
}

export type Acquired =
  | { readonly kind: 'granted'; readonly grant: Grant }
  | { readonly kind: 'parked'; readonly expectedMs: number };

/**
 * Keeps the fleet within what a provider allows, by credential and model: requests and tokens per minute and calls in
 * flight, fair between tenants by tokens and weight, in order within a tenant.
 */
export interface RateLimiter extends AsyncDisposable {
  /**
   * Waits for a permit, at most `maxInlineWaitMs`. `parked`: it would take longer; the run has to release its worker, then
   * call `park`. A run that was woken for its turn gets the permit at once. Rejects when the signal is aborted.
   */
  acquire(request: GrantRequest, maxInlineWaitMs: number, signal: AbortSignal): Promise<Acquired>;
  /** Keeps the position of a run that is suspended now. */
  park(request: GrantRequest): Promise<void>;
  /** Takes a run out of every wait queue, for instance because it was cancelled. */
  leave(runId: string): Promise<void>;
  /** After each granted attempt. Corrects the estimate, releases the permit, and learns. */
  settle(grant: Grant, outcome: GrantOutcome): Promise<void>;
  /** Takes parked runs whose turn has come: a permit is reserved for each for a while. Called several times a second. */
  dispatch(): Promise<readonly string[]>;
}
