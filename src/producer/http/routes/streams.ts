import { z } from 'zod';
import { createProjector, dialectNames, readFrom, eventProfiles } from '../../../shared/dialects/project.ts';
import { eventSchema } from '../../../shared/contract/event.ts';
import type { App, Services } from '../app.ts';
import { errors, route, runIdParam, wholeNumberParam } from '../openapi.ts';
import {
  lastEventId,
  resumeHeaders,
  formatFor,
  inDialect,
  shownOnly,
  sendStream,
  chatFraming,
} from '../event-stream.ts';
import { RunError } from '../../../shared/base/errors.ts';
import { chatLine, chatTurnView } from '../../client/chat/chat-line.ts';
import { chatTurnRequest, type ChatTurnRequest } from '../../client/chat/open-turn.ts';
import type { Millrace } from '../../client/millrace.ts';
import type { ProducerMetrics } from '../metrics.ts';

const eventStream = {
  description: 'The events after the number given, then live, until the terminal event.',
  content: { 'text/event-stream': { schema: eventSchema }, 'application/x-ndjson': { schema: eventSchema } },
};

const eventsSchema = {
  operationId: 'followRun',
  summary: 'Follow a run',
  description:
    'Server-sent events: `id` is the sequence number, `event` the type, `data` the event as JSON; with `Accept: application/x-ndjson` one event a line. Ends after the terminal event. A stream that ends without one, or with an `error` that has no `id`, is to be resumed with `Last-Event-ID` or `after`. A comment (NDJSON: an empty line) every 15 seconds keeps it open. Events older than the replay buffer answer 410 `replay_truncated`. After its end, once `EVENT_LOG_TTL_S` is over, a run is read from the archive, without text deltas: `omitted` of an event says how many are left out before it. With `whole=true` or a `dialect` it is not. With `dialect`, an event becomes none, one or several messages, and `id` stays the number of the event. With `profile=interactive` the stream of a run in the background ends without a terminal event.',
  params: runIdParam,
  headers: resumeHeaders,
  querystring: z.object({
    after: wholeNumberParam(0, Number.MAX_SAFE_INTEGER).optional().describe('Continue after this number.'),
    dialect: z
      .enum(['native', ...dialectNames])
      .optional()
      .describe('Events in the format of another system.'),
    whole: z
      .enum(['true', 'false'])
      .optional()
      .describe(
        '`true`: 404 `execution_not_found` where only the archive has the events, which keeps no text deltas. A dialect needs them. Default `false`.',
      ),
    profile: z
      .enum(eventProfiles)
      .optional()
      .describe(
        '`interactive`: of a run in the background only files, notes and messages to the user. Default `full`.',
      ),
  }),
  response: { 200: eventStream, ...errors },
};

const lineStream = {
  description:
    'The lines of the turn. The headers `X-Execution-ID` and `X-Run-ID` name it; with the run id it is cancelled, decided about and looked at.',
  content: { 'application/x-ndjson': { schema: chatLine } },
};

const turnSchema = {
  operationId: 'takeChatTurn',
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
    stream: z
      .enum(['true', 'false'])
      .optional()
      .describe(
        '`false`: answers 202 at once with what names the turn; its run is followed by itself. Default `true`.',
      ),
  }),
  body: chatTurnRequest.describe('May be absent when `X-Execution-ID` names a turn that was submitted before.'),
  response: { 200: lineStream, 202: chatTurnView, ...errors },
};

const findTurnRoute = route('read', {
  operationId: 'findChatTurn',
  summary: 'Find a turn of a chat',
  description:
    'A turn that was submitted before, by its execution id. 404 `execution_not_found` when nothing is known of it any more.',
  params: z.object({ executionId: z.string().describe('As `X-Execution-ID` names it') }),
  response: { 200: chatTurnView, ...errors },
});

/** Errors that are known before the first event or line are JSON with their status. */
export function streamRoutes(app: App, services: Services): void {
  app.get(
    '/v1/runs/:id/events',
    { schema: eventsSchema, config: { access: 'read', waits: true } },
    async ({ mill, tenant, params, query, headers }, reply) => {
      const after = lastEventId(headers) ?? query.after ?? 0;
      using answer = services.openAnswers.wait(reply.raw);
      const dialect = query.dialect === 'native' ? undefined : query.dialect;
      const from = dialect ? readFrom(dialect, after) : after;
      const whole = dialect !== undefined || query.whole === 'true';
      const events = mill.events(params.id, { after: from, signal: answer.signal, whole })[Symbol.asyncIterator]();
      const format = formatFor(headers.accept);
      const projected = dialect ? inDialect(format, createProjector(dialect, { tenant }, after)) : format;
      const framing = shownOnly(projected, query.profile ?? 'full');
      await sendStream(events, { framing, look: () => mill.get(params.id) }, reply, services);
    },
  );
  app.post(
    '/v1/chat/turns',
    { schema: turnSchema, config: { access: 'write', waits: true } },
    async ({ mill, body, query, headers }, reply) => {
      const after = lastEventId(headers) ?? query.after ?? 0;
      const turn = await open(mill, body, headers['x-execution-id'], services.metrics);
      if (query.stream === 'false') return await reply.code(202).send(turn.turn);
      using answer = services.openAnswers.wait(reply.raw);
      const lines = turn.events({ after, signal: answer.signal });
      const sending = {
        framing: chatFraming,
        look: () => mill.get(turn.runId),
        headers: { 'x-execution-id': turn.executionId, 'x-run-id': turn.runId },
      };
      return await sendStream(lines, sending, reply, services);
    },
  );
  app.get('/v1/chat/turns/:executionId', findTurnRoute, async ({ mill, params }) => {
    const { turn } = await mill.chatTurn(params.executionId);
    return turn;
  });
}

/** With a body the turn is submitted, unless it was before; without one it has to be there. */
async function open(mill: Millrace, body: unknown, executionId: string | undefined, metrics: ProducerMetrics) {
  if (body === undefined || body === null) {
    if (executionId !== undefined) return await mill.chatTurn(executionId);
    throw new RunError('invalid_json', 'the body is empty, and no X-Execution-ID names a turn');
  }
  return await metrics.asking(() => mill.chat(body as ChatTurnRequest, { executionId }));
}
