import { z } from 'zod';
import { clip, cleanText } from '../../shared/base/text.ts';
import { RunError, type ErrorCode } from '../../shared/base/errors.ts';
import type { RateLimitReport } from '../../shared/contract/limits.ts';
import type { Usage } from '../../shared/contract/money.ts';

const kinds = {
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
} as const satisfies Record<string, { retryable: boolean; code: ErrorCode }>;
export type LlmErrorKind = keyof typeof kinds;
export const llmErrorKind = z.enum(Object.keys(kinds) as [LlmErrorKind, ...LlmErrorKind[]]);

export interface LlmErrorOptions {
  readonly status?: number | undefined;
  readonly code?: string | undefined;
  readonly retryAfterMs?: number | undefined;
  /** Only where a documented case differs from its kind. */
  readonly retryable?: boolean | undefined;
  readonly usage?: Usage | undefined;
  /** Of the headers of the refusal. */
  readonly rateLimit?: RateLimitReport | undefined;
  readonly cause?: unknown;
  readonly providerRequestId?: string | undefined;
}

/** A provider may be foreign code, and quote anything. */
const maxMessageChars = 4_096;

/** A failed model call. Classified by status and provider code, never by message text. */
export class LlmError extends Error {
  readonly kind: LlmErrorKind;
  readonly retryable: boolean;
  readonly provider: string;
  readonly status: number | undefined;
  readonly code: string | undefined;
  /** How long the provider asked us to wait, in milliseconds; undefined when it named no time. */
  readonly retryAfterMs: number | undefined;
  rateLimit: RateLimitReport | undefined;
  /** What the failed call used, when the provider reported it before it failed: it is billed all the same. */
  usage: Usage | undefined;
  /** What the provider calls the request: for its support. */
  providerRequestId: string | undefined;

  constructor(kind: LlmErrorKind, provider: string, message: string, options: LlmErrorOptions = {}) {
    super(clip(cleanText(message), maxMessageChars), options.cause === undefined ? {} : { cause: options.cause });
    this.name = 'LlmError';
    this.kind = kind;
    this.provider = provider;
    this.retryable = options.retryable ?? kinds[kind].retryable;
    this.status = options.status;
    this.code = options.code;
    this.retryAfterMs = options.retryAfterMs;
    this.rateLimit = options.rateLimit;
    this.usage = options.usage;
    this.providerRequestId = options.providerRequestId;
  }
}

/** `what` goes on from the provider's name. */
export function providerError(kind: LlmErrorKind, provider: string, what: string, options?: LlmErrorOptions): LlmError {
  return new LlmError(kind, provider, `provider ${provider} ${what}`, options);
}

/** The error of every call whose signal was aborted, whatever else went wrong. */
export function cancelledCall(provider: string, signal: AbortSignal, usage?: Usage): LlmError {
  return new LlmError('cancelled', provider, 'the model call was cancelled', { cause: signal.reason, usage });
}

/** The run's error for a model call that failed for good. The retry flag is the model error's own. */
export function runErrorFrom(error: LlmError): RunError {
  const { retryAfterMs } = error;
  const details = retryAfterMs === undefined ? undefined : { retryAfterMs };
  return new RunError(kinds[error.kind].code, error.message, { cause: error, retryable: error.retryable, details });
}

/** Nothing of the request had left when one of these happened. */
const unsentCodes: ReadonlySet<unknown> = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
  'EGRESS_REFUSED',
]);
const uncertain: ReadonlySet<LlmErrorKind> = new Set<LlmErrorKind>(['timeout', 'transport', 'cancelled', 'unknown']);

/** May a failed call that reported no usage be on the bill? Not when the provider refused it, or never saw it. */
export function mayBeBilled({ kind, status, usage, cause }: LlmError): boolean {
  if (usage || status !== undefined || !uncertain.has(kind)) return false;
  return !causesOf(cause).some((error) => 'code' in error && unsentCodes.has(error.code));
}

/** An error and what caused it, from the outside in, at most five of them. */
export function causesOf(thrown: unknown): Error[] {
  const found: Error[] = [];
  for (let error = thrown; error instanceof Error && found.length < 5; error = error.cause) found.push(error);
  return found;
}

export type Backoff = 'exponential' | 'linear';

const baseMs = 250;
const backoffCapMs = 8_000;

/** The longest wait that a provider may ask for. */
const retryAfterCapMs = 60_000;

/**
 * Milliseconds to wait before the retry with this index (from 0). The provider's own wish counts when it is longer.
 * Up to a fifth, at most 500 ms, is added at random and never taken away: a provider that asked for a second gets it.
 */
export function retryDelayMs(index: number, backoff: Backoff, askedMs: number | undefined, random: () => number) {
  const grown = backoff === 'linear' ? baseMs * (index + 1) : baseMs * 2 ** Math.min(index, 30);
  const wait = Math.max(Math.min(grown, backoffCapMs), Math.min(askedMs ?? 0, retryAfterCapMs));
  return Math.round(wait + random() * Math.min(wait * 0.2, 500));
}

/**
 * The wait that the headers ask for, in milliseconds, at most 60,000: `retry-after-ms`, else `retry-after` in seconds or
 * as an HTTP date. A date in the past is 0; what cannot be read is undefined.
 */
export function retryAfterMs(headers: Headers, nowMs: number): number | undefined {
  const wait = asNumber(headers.get('retry-after-ms')) ?? seconds(headers.get('retry-after'), nowMs);
  return wait === undefined ? undefined : Math.min(wait, retryAfterCapMs);
}

function seconds(text: string | null, nowMs: number): number | undefined {
  const count = asNumber(text);
  if (count !== undefined) return count * 1_000;
  // Date.parse reads almost anything as a date ("-5", "soon 7"): only a weekday in front makes it an HTTP date.
  if (text === null || !/^[A-Z][a-z]{2,8},? /.test(text)) return undefined;
  const at = Date.parse(text);
  return Number.isNaN(at) ? undefined : Math.max(0, at - nowMs);
}

function asNumber(text: string | null): number | undefined {
  return text !== null && /^\s*\d+(\.\d+)?\s*$/.test(text) ? Number(text) : undefined;
}
