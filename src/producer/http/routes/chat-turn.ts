import { z } from 'zod';
import { RunError } from '../../../shared/base/errors.ts';
import { chatLine, type ChatTurn } from '../../client/chat/chat-turn.ts';
import { chatTurnRequest, type ChatTurnRequest } from '../../client/chat/open-turn.ts';
import type { Millrace } from '../../client/millrace.ts';
import type { App, Services } from '../app.ts';
import { errorAnswer } from '../error-answer.ts';
import type { ProducerMetrics } from '../metrics.ts';
import { errorBody, wholeNumberParam } from '../openapi.ts';
import { lastEventId, resumeHeaders, untilKnown } from '../resume-stream.ts';
import { chatFraming } from '../stream-format.ts';
import { writeEvents } from '../write-events.ts';

const stream = {
  description:
    'The lines of the turn. The headers `X-Execution-ID` and `X-Run-ID` name it; with the run id it is cancelled, decided about and looked at.',
  content: { 'application/x-ndjson': { schema: chatLine } },
};

const schema = {
  summary: 'Take a turn in a chat',
  description:
    'Streams the answer to a message as NDJSON: `session.run.started`, the lines of the dialect `ndjson-chat`, then `session.run.completed`, or `error` and `session.run.failed`. The turn is a run under the execution id `project:session:turn`, or the one of the header: the same request again, also at the same time or at another producer, finds the same run, and another message under the same id answers 409 `idempotency_conflict`. A client that goes away does not stop the run. A stream that ends without a last line is resumed with the header `X-Execution-ID` and the `seq` of the last line in `after`, with or without the body; a `session.run.started` in the answer says that everything before it is to be forgotten. A turn that had ended before is replayed with `replayed: true`; when its events are gone, from its stored result; when nothing is known of it, 404 `execution_not_found` without a body, and a new run with one. A line `heartbeat` every 15 seconds keeps the stream open.',
  headers: resumeHeaders.extend({
    'x-execution-id': z
      .string()
      .optional()
      .describe('Names the turn. Default: project (or the tenant), session and turn index of the body.'),
  }),
  querystring: z.object({
    after: wholeNumberParam(0, Number.MAX_SAFE_INTEGER).optional().describe('Continue after the line with this `seq`.'),
  }),
  body: chatTurnRequest.describe('May be absent when `X-Execution-ID` names a turn that was submitted before.'),
  response: { 200: stream, '4xx': errorBody, '5xx': errorBody },
};

/** `POST /v1/chat/turns`. Errors that are known before the first line are JSON with their status. */
export function chatTurnRoute(app: App, { openAnswers, metrics, redactor, keepAliveMs }: Services): void {
  app.route({
    method: 'POST',
    url: '/v1/chat/turns',
    schema,
    config: { access: 'write', waits: true },
    handler: async ({ mill, body, query, headers, id: requestId }, reply) => {
      const after = lastEventId(headers) ?? query.after ?? 0;
      const turn = await open(mill, body, headers['x-execution-id'], metrics);
      using answer = openAnswers.wait(reply.raw);
      const lines = turn.events({ after, signal: answer.signal });
      const first = lines.next();
      await untilKnown(first, () => mill.get(turn.runId));

      void reply.headers({ 'x-execution-id': turn.executionId, 'x-run-id': turn.runId });
      reply.hijack();
      metrics.subscribers.inc();
      await writeEvents(lines, first, {
        response: reply.raw,
        format: chatFraming,
        keepAliveMs,
        headers: reply.getHeaders() as Record<string, string>,
        describe: (error) => errorAnswer(error, requestId, redactor).body,
      });
      metrics.subscribers.dec();
    },
  });
}

/** With a body the turn is submitted, unless it was before; without one it has to be there. */
async function open(
  mill: Millrace,
  body: unknown,
  executionId: string | undefined,
  metrics: ProducerMetrics,
): Promise<ChatTurn> {
  if (body === undefined || body === null) {
    if (executionId !== undefined) return await mill.chatTurn(executionId);
    throw new RunError('invalid_json', 'the body is empty, and no X-Execution-ID names a turn');
  }
  try {
    const turn = await mill.chat(body as ChatTurnRequest, { executionId });
    metrics.runAsked(turn.attached ? 'attached' : 'accepted');
    return turn;
  } catch (error) {
    metrics.runAsked('refused');
    throw error;
  }
}
