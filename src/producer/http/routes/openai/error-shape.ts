import type { App, Services } from '../../app.ts';
import { sendError } from '../../error-answer.ts';
import { wireError, wireErrorOf } from '../../../openai/wire-error.ts';

/** The answers of routes of OpenAI's API that are errors, for the page of routes. */
export const wireErrors = { '4xx': wireError, '5xx': wireError };

/**
 * Has all routes of this scope answer errors in OpenAI's shape, with our status and our code. The header `x-should-retry` says to
 * its clients whether the same request may succeed later; they would repeat every 409 and 5xx by themselves.
 */
export function answerErrorsAsOpenAi(app: App, { log, redactor }: Services, named?: (path: string) => string): void {
  app.setErrorHandler((error, request, reply) => {
    sendError(error, request, reply, {
      log,
      redactor,
      shape: ({ status, body }) => {
        void reply.header('x-should-retry', String(body.error.retryable));
        return wireErrorOf(body.error, status, named);
      },
    });
  });
}
