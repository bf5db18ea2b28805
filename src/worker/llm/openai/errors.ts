import { APIError } from 'openai';
import { z } from 'zod';
import { cutText } from '../../../shared/base/redact.ts';
import { causesOf, LlmError, type LlmErrorKind, retryAfterMs, providerError } from '../errors.ts';
import { refusedCode } from '../base-url.ts';
import { rateLimitOf } from './transport.ts';
import { clip } from '../../../shared/base/text.ts';

const maxMessageBytes = 2_048;

/** The codes that are more exact than the status they come with. */
const decisiveCodes: ReadonlyMap<unknown, LlmErrorKind> = new Map<unknown, LlmErrorKind>([
  ['context_length_exceeded', 'context_length'],
  ['content_filter', 'content_filter'],
  ['content_policy_violation', 'content_filter'],
  ['image_content_policy_violation', 'content_filter'],
  ['bio_policy', 'content_filter'],
  ['misalignment_policy_violation', 'content_filter'],
  ['insufficient_quota', 'rate_limit'],
]);

const kindByCode: ReadonlyMap<unknown, LlmErrorKind> = new Map<unknown, LlmErrorKind>([
  ...decisiveCodes,
  ['invalid_prompt', 'bad_request'],
  ['rate_limit_exceeded', 'rate_limit'],
  ['rate_limit_error', 'rate_limit'],
  ['invalid_api_key', 'auth'],
  ['authentication_error', 'auth'],
  ['permission_error', 'auth'],
  ['model_not_found', 'bad_request'],
  ['invalid_request_error', 'bad_request'],
  ['server_error', 'overloaded'],
  ['api_error', 'overloaded'],
  ['overloaded_error', 'overloaded'],
  ['timeout', 'timeout'],
]);

/**
 * Whatever the `openai` client or the transport threw, as a model error. Messages carry at most 2 KiB of what the
 * provider wrote, and of a transport failure only its code.
 */
export function errorFromClient(provider: string, thrown: unknown, nowMs: number): LlmError {
  if (thrown instanceof LlmError) return thrown;
  const { status, headers } = thrown instanceof APIError ? thrown : {};
  // The address rule's own words, when it stopped the connection.
  const refused = causesOf(thrown).find((error) => 'code' in error && error.code === refusedCode.code);
  if (refused)
    return providerError('transport', provider, `is not asked: ${refused.message}`, {
      cause: refused,
      retryable: false,
    });
  if (!(thrown instanceof APIError) || status === undefined) {
    return providerError('transport', provider, `could not be reached${codeIn(thrown)}`, { cause: thrown });
  }
  const code =
    firstIn(decisiveCodes, thrown.code, thrown.type) ?? (typeof thrown.code === 'string' ? thrown.code : undefined);
  const kind = decisiveCodes.get(code) ?? kindByStatus(status);
  return new LlmError(kind, provider, cutText(`provider ${provider} answered ${thrown.message}`, maxMessageBytes), {
    status,
    code,
    retryAfterMs: headers && retryAfterMs(headers, nowMs),
    rateLimit: headers && rateLimitOf(headers),
    providerRequestId: headers && requestIdOf(headers),
    retryable: retryableBy(code),
  });
}

/** The connection ended before the answer did. */
export function brokenOff(provider: string, cause: Error): LlmError {
  return providerError('transport', provider, `broke off its answer${codeIn(cause)}`, { cause });
}

/** Every field may be missing or of another type, which counts as missing. */
const errorBody = z.object({
  code: z.union([z.string(), z.int()]).optional().catch(undefined),
  type: z.string().optional().catch(undefined),
  message: z.string().optional().catch(undefined),
});

/** An `error` object that came in place of a part of the answer. What is not classified is the server's own trouble. */
export function errorFromBody(provider: string, body: unknown): LlmError {
  const { code, type, message } = errorBody.safeParse(body).data ?? {};
  const known = firstIn(kindByCode, code, type);
  const status = Number(code) >= 400 ? Number(code) : undefined;
  const kind = kindByCode.get(known) ?? (status === undefined ? 'overloaded' : kindByStatus(status));
  const text = `provider ${provider} sent an error: ${message ?? known ?? 'no reason given'}`;
  return new LlmError(kind, provider, cutText(text, maxMessageBytes), {
    status,
    code: known ?? code?.toString(),
    retryable: retryableBy(known),
  });
}

function firstIn(codes: { has(code: unknown): boolean }, ...candidates: unknown[]): string | undefined {
  return candidates.find((candidate) => typeof candidate === 'string' && codes.has(candidate))?.toString();
}

/** A used-up account does not fill up while we wait, although it comes as 429. */
function retryableBy(code: string | undefined): false | undefined {
  return code === 'insufficient_quota' ? false : undefined;
}

function kindByStatus(status: number): LlmErrorKind {
  if (status === 429) return 'rate_limit';
  if (status >= 500) return 'overloaded';
  if (status === 408 || status === 425) return 'timeout';
  if (status === 401 || status === 402 || status === 403) return 'auth';
  if (status === 400 || status === 404 || status === 409 || status === 413 || status === 422) return 'bad_request';
  return 'unknown';
}

/** The system's name for a failure (ECONNRESET, UND_ERR_SOCKET), from the innermost cause that has one. */
function codeIn(thrown: unknown): string {
  const codes = causesOf(thrown).map((error) => ('code' in error && typeof error.code === 'string' ? error.code : ''));
  const code = codes.findLast((one) => /^[A-Z0-9_]{1,64}$/.test(one));
  return code ? ` (${code})` : '';
}

const maxIdChars = 200;

/** What the server calls the request, as its support asks for it. */
export function requestIdOf(headers: { get(name: string): string | null }): string | undefined {
  const id = headers.get('x-request-id') ?? headers.get('request-id');
  return id === null || id === '' ? undefined : clip(id, maxIdChars);
}
