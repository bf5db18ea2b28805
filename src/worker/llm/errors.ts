import { RunError, type ErrorCode } from '../../shared/errors.ts';
import type { Usage } from '../../shared/money.ts';

/** Why a model call failed. */
export type LlmErrorKind =
  | 'auth'
  | 'rate_limit'
  | 'overloaded'
  | 'timeout'
  | 'transport'
  | 'cancelled'
  | 'content_filter'
  | 'bad_request'
  | 'context_length'
  | 'unknown';

const kinds: Record<LlmErrorKind, { retryable: boolean; code: ErrorCode }> = {
  auth: { retryable: false, code: 'provider_auth' },
  rate_limit: { retryable: true, code: 'provider_rate_limit' },
  overloaded: { retryable: true, code: 'provider_unavailable' },
  timeout: { retryable: true, code: 'provider_unavailable' },
  transport: { retryable: true, code: 'provider_unavailable' },
  cancelled: { retryable: false, code: 'cancelled' },
  content_filter: { retryable: false, code: 'content_filter' },
  bad_request: { retryable: false, code: 'validation' },
  context_length: { retryable: false, code: 'context_length_exceeded' },
  unknown: { retryable: false, code: 'internal' },
};

export interface LlmErrorOptions {
  readonly status?: number | undefined;
  readonly code?: string | undefined;
  readonly retryAfterMs?: number | undefined;
  /** Only where a documented case differs from its kind. */
  readonly retryable?: boolean | undefined;
  readonly usage?: Usage | undefined;
  readonly cause?: unknown;
}

/** A failed model call. Classified by status and provider code, never by message text. */
export class LlmError extends Error {
  readonly kind: LlmErrorKind;
  readonly retryable: boolean;
  readonly provider: string;
  readonly status: number | undefined;
  readonly code: string | undefined;
  /** How long the provider asked us to wait, in milliseconds; undefined when it did not say. */
  readonly retryAfterMs: number | undefined;
  /** What the failed call used, when the provider told before it failed: it is billed all the same. */
  usage: Usage | undefined;

  constructor(kind: LlmErrorKind, provider: string, message: string, options: LlmErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'LlmError';
    this.kind = kind;
    this.provider = provider;
    this.retryable = options.retryable ?? kinds[kind].retryable;
    this.status = options.status;
    this.code = options.code;
    this.retryAfterMs = options.retryAfterMs;
    this.usage = options.usage;
  }
}

/** The error of every call whose signal was aborted, whatever else went wrong. */
export function cancelledCall(provider: string, signal: AbortSignal, usage?: Usage): LlmError {
  return new LlmError('cancelled', provider, 'the model call was cancelled', { cause: signal.reason, usage });
}

/** The run's error for a model call that failed for good. The retry flag is the model error's own. */
export function runErrorFrom(error: LlmError): RunError {
  return new RunError(kinds[error.kind].code, error.message, { cause: error, retryable: error.retryable });
}
