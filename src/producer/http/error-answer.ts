import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import { asRunError, RunError, type ErrorCode, type ErrorInfo } from '../../shared/base/errors.ts';
import { cutText, type Redactor } from '../../shared/base/redact.ts';
import type { Socket } from 'node:net';
import { wireJson } from './wire-json.ts';
import type { Log } from '../../shared/base/log.ts';
import type { App } from './app.ts';

const maxMessageBytes = 2_048;
const defaultRetryAfterS = 1;

/**
 * The answer to anything that was thrown: status, headers, and the one body shape that all errors have. Text is scrubbed and at most
 * 2 KiB; only a defect carries the request's id.
 */
export function errorAnswer(thrown: unknown, requestId: string, redactor: Redactor) {
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

interface ErrorPorts {
  readonly log: Log;
  readonly redactor: Redactor;
  /** The body in the shape of another API. Absent: ours. */
  readonly shape?: (answer: ReturnType<typeof errorAnswer>) => object;
}

/** How long a client may go on sending a body that was refused. */
const lingerMs = 1_000;

/** Answers every error of a route in the one shape. */
export function answerErrors(app: App, ports: ErrorPorts): void {
  app.setErrorHandler((error, request, reply) => {
    sendError(error, request, reply, ports);
  });
}

/** Sends the answer to an error and logs it: defects with everything that is known, the rest with their code. */
export function sendError(error: unknown, request: FastifyRequest, reply: FastifyReply, ports: ErrorPorts): void {
  const answer = errorAnswer(error, request.id, ports.redactor);
  const { status, headers } = answer;
  const { code } = answer.body.error;
  const facts = { requestId: request.id, method: request.method, route: request.routeOptions.url, status, code };
  if (code === 'internal') ports.log.error({ ...facts, err: error }, 'request failed');
  else if (status >= 500) ports.log.warn(facts, 'request failed');
  else ports.log.info(facts, 'request refused');
  void reply.code(status).headers(headers);
  const body = ports.shape?.(answer) ?? answer.body;
  const isBodyBegun = code === 'payload_too_large' || request.raw.readableDidRead;
  if (isBodyBegun && !request.raw.complete) endAfterBody(request, reply, wireJson(body));
  else void reply.send(body);
}

/**
 * Answers while the client still sends, and then closes the connection. Closing at once would reset it, and a client
 * that is busy sending would see a broken connection instead of the answer. Nothing of the rest is kept.
 */
function endAfterBody(request: FastifyRequest, reply: FastifyReply, body: string): void {
  reply.hijack();
  const response = reply.raw;
  response.writeHead(reply.statusCode, {
    ...(reply.getHeaders() as Record<string, string>),
    'content-type': 'application/json; charset=utf-8',
    'content-length': Buffer.byteLength(body),
    connection: 'close',
  });
  response.write(body);
  const end = () => {
    clearTimeout(timer);
    response.end();
  };
  const timer = setTimeout(end, lingerMs);
  request.raw.once('end', end).once('close', end).resume();
}

/** What is not even HTTP never becomes a request. Answers on the bare socket. */
export function answerClientError(error: Error & { code?: string }, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) return;
  const tooLarge = error.code === 'HPE_HEADER_OVERFLOW';
  const message = tooLarge ? 'the request line and headers are over 16 KiB' : 'this is not an HTTP request';
  const code = tooLarge ? 'payload_too_large' : 'validation';
  const body = wireJson({ error: { code, message, retryable: false } });
  const status = tooLarge ? '431 Request Header Fields Too Large' : '400 Bad Request';
  const head = [
    `HTTP/1.1 ${status}`,
    `Content-Length: ${Buffer.byteLength(body)}`,
    'Content-Type: application/json',
    'Connection: close',
  ];
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`);
}
