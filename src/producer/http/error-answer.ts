import type { FastifyError } from 'fastify';
import { hasZodFastifySchemaValidationErrors } from 'fastify-type-provider-zod';
import { asRunError, RunError, type ErrorCode, type ErrorInfo } from '../../shared/base/errors.ts';
import { cutText, type Redactor } from '../../shared/base/redact.ts';

const maxMessageBytes = 2_048;
const defaultRetryAfterS = 1;

/** An error as it leaves: status, headers, and the one body shape that all errors have. */
export interface ErrorAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: { readonly error: ErrorInfo };
}

/** The answer to anything that was thrown. Text is scrubbed and at most 2 KiB; only a defect carries the request's id. */
export function errorAnswer(thrown: unknown, requestId: string, redactor: Redactor): ErrorAnswer {
  const error = knownError(thrown);
  const status = error.http;
  const body: ErrorInfo = {
    code: error.code,
    message: cutText(redactor.text(error.message), maxMessageBytes),
    retryable: error.retryable,
    details: error.details === undefined ? undefined : redactor.value(error.details),
    correlationId: error.code === 'internal' ? requestId : undefined,
  };
  return { status, headers: headersFor(error, status), body: { error: body } };
}

function headersFor(error: RunError, status: number): Record<string, string> {
  if (status === 429 || status === 503) return { 'retry-after': String(retryAfterS(error.details)) };
  if (error.code === 'unauthorized') return { 'www-authenticate': 'Bearer realm="millrace"' };
  if (error.code === 'forbidden') return { 'www-authenticate': 'Bearer realm="millrace", error="insufficient_scope"' };
  return {};
}

function retryAfterS(details: unknown): number {
  const given = details && typeof details === 'object' && 'retryAfterS' in details ? details.retryAfterS : undefined;
  return typeof given === 'number' ? Math.max(1, Math.ceil(given)) : defaultRetryAfterS;
}

/** What Fastify throws by itself, in our words. */
const fastifyErrors: Readonly<Record<string, readonly [ErrorCode, string]>> = {
  FST_ERR_CTP_BODY_TOO_LARGE: ['payload_too_large', 'the body is over the limit of this route'],
  FST_ERR_CTP_INVALID_MEDIA_TYPE: ['unsupported_media_type', 'this route does not read this content type'],
  FST_ERR_CTP_INVALID_JSON_BODY: ['invalid_json', 'the body is not JSON, or has keys that reach a prototype'],
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: ['invalid_json', 'the body is not as long as Content-Length says'],
  FST_ERR_BAD_URL: ['validation', 'the path is not a valid URL component'],
  FST_ERR_MAX_PARAM_LENGTH: ['invalid_id', 'the id in the path is too long'],
};

function knownError(thrown: unknown): RunError {
  if (hasZodFastifySchemaValidationErrors(thrown)) return invalidRequest(thrown);
  if (!isFastifyError(thrown)) return asRunError(thrown);
  const isRefusal = thrown.statusCode !== undefined && thrown.statusCode < 500;
  const [code, message] = fastifyErrors[thrown.code] ?? [isRefusal ? 'validation' : 'internal', thrown.message];
  return new RunError(code, message, { cause: thrown });
}

function isFastifyError(thrown: unknown): thrown is FastifyError {
  return (
    thrown instanceof Error && 'code' in thrown && typeof thrown.code === 'string' && thrown.code.startsWith('FST_ERR_')
  );
}

function invalidRequest({
  validation,
}: {
  readonly validation: readonly { instancePath: string; message?: string }[];
}): RunError {
  const details = validation.map(({ instancePath, message = 'is not valid' }) => ({
    path: instancePath.slice(1).replaceAll('/', '.'),
    message,
  }));
  const list = details.map(({ path, message }) => `${path}: ${message}`);
  return new RunError('validation', `the request is not valid: ${list.join('; ')}`, { details });
}
