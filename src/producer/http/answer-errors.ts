import type { Socket } from 'node:net';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { RunError } from '../../shared/base/errors.ts';
import { jsonText } from '../../shared/base/json-text.ts';
import type { Log } from '../../shared/base/log.ts';
import type { Redactor } from '../../shared/base/redact.ts';
import type { App } from './app.ts';
import { errorAnswer } from './error-answer.ts';

interface ErrorPorts {
  readonly log: Log;
  readonly redactor: Redactor;
}

/** How long a client may go on sending a body that was refused. */
const lingerMs = 1_000;

/** Answers every error of a route, and every path without one, in the one shape. */
export function answerErrors(app: App, ports: ErrorPorts): void {
  app.setErrorHandler((error, request, reply) => {
    sendError(error, request, reply, ports);
  });
  app.setNotFoundHandler((request, reply) => {
    sendError(new RunError('not_found', 'there is no such route'), request, reply, ports);
  });
}

/** Sends the answer to an error and logs it: defects with everything that is known, the rest with their code. */
export function sendError(
  error: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
  { log, redactor }: ErrorPorts,
): void {
  const { status, headers, body } = errorAnswer(error, request.id, redactor);
  const { code } = body.error;
  const facts = { requestId: request.id, method: request.method, route: request.routeOptions.url, status, code };
  if (code === 'internal') log.error({ ...facts, err: error }, 'request failed');
  else if (status >= 500) log.warn(facts, 'request failed');
  else log.info(facts, 'request refused');
  void reply.code(status).headers(headers);
  const isBodyBegun = code === 'payload_too_large' || request.raw.readableDidRead;
  if (isBodyBegun && !request.raw.complete) endAfterBody(request, reply, jsonText(body));
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
  const body = jsonText({ error: { code, message, retryable: false } });
  const status = tooLarge ? '431 Request Header Fields Too Large' : '400 Bad Request';
  const head = [
    `HTTP/1.1 ${status}`,
    `Content-Length: ${Buffer.byteLength(body)}`,
    'Content-Type: application/json',
    'Connection: close',
  ];
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`);
}
