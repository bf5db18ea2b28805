import { RunError, type ErrorCode } from '../../shared/errors.ts';

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

/** A failed model call. Classified by status and provider code, never by message text. */
export class LlmError extends Error {
  readonly kind: LlmErrorKind;
  readonly retryable: boolean;
  readonly provider: string;
  readonly status: number | undefined;
  readonly code: string | undefined;
  /** How long the provider asked us to wait, in milliseconds; undefined when it did not say. */
  readonly retryAfterMs: number | undefined;

  constructor(
    kind: LlmErrorKind,
    provider: string,
    message: string,
    options: { status?: number; code?: string; retryAfterMs?: number; retryable?: boolean; cause?: unknown } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'LlmError';
    this.kind = kind;
    this.provider = provider;
    this.retryable = options.retryable ?? kinds[kind].retryable;
    this.status = options.status;
    this.code = options.code;
    this.retryAfterMs = options.retryAfterMs;
  }
}

/** The run's error for a model call that failed for good. The retry flag is the model error's own. */
export function runErrorFrom(error: LlmError): RunError {
  return new RunError(kinds[error.kind].code, error.message, { cause: error, retryable: error.retryable });
}
