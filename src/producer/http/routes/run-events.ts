import { z } from 'zod';
import { createProjector, dialectNames, readFrom } from '../../../shared/dialects/project.ts';
import { eventSchema } from '../../../shared/contract/event.ts';
import { eventProfiles } from '../../../shared/dialects/profile.ts';
import type { App, Services } from '../app.ts';
import { errorAnswer } from '../error-answer.ts';
import { errorBody, runIdParam, wholeNumberParam } from '../openapi.ts';
import { lastEventId, resumeHeaders, untilKnown } from '../resume-stream.ts';
import { formatFor, inDialect, shownOnly } from '../stream-format.ts';
import { writeEvents } from '../write-events.ts';

const stream = {
  description: 'The events after the number given, then live, until the terminal event.',
  content: { 'text/event-stream': { schema: eventSchema }, 'application/x-ndjson': { schema: eventSchema } },
};

const schema = {
  summary: 'Follow a run',
  description:
    'Server-sent events: `id` is the sequence number, `event` the type, `data` the event as JSON; with `Accept: application/x-ndjson` one event a line. Ends after the terminal event. A stream that ends without one, or with an `error` that has no `id`, is to be resumed with `Last-Event-ID` or `after`. A comment (NDJSON: an empty line) every 15 seconds keeps it open. Events older than the replay buffer answer 410 `replay_truncated`. With `dialect`, an event becomes none, one or several messages, and `id` stays the number of the event. With `profile=interactive` the stream of a run in the background ends without a terminal event.',
  params: runIdParam,
  headers: resumeHeaders,
  querystring: z.object({
    after: wholeNumberParam(0, Number.MAX_SAFE_INTEGER).optional().describe('Continue after this number.'),
    dialect: z
      .enum(['native', ...dialectNames])
      .optional()
      .describe('Events in the format of another system.'),
    profile: z
      .enum(eventProfiles)
      .optional()
      .describe(
        '`interactive`: of a run in the background only files, notes and messages to the user. Default `full`.',
      ),
  }),
  response: { 200: stream, '4xx': errorBody, '5xx': errorBody },
};

/** `GET /v1/runs/:id/events`. Errors that are known before the first event are JSON with their status. */
export function runEventsRoute(app: App, { openAnswers, metrics, redactor, keepAliveMs }: Services): void {
  app.route({
    method: 'GET',
    url: '/v1/runs/:id/events',
    schema,
    config: { access: 'read', waits: true },
    handler: async ({ mill, params, query, headers, id: requestId }, reply) => {
      const after = lastEventId(headers) ?? query.after ?? 0;
      using answer = openAnswers.wait(reply.raw);
      const dialect = query.dialect === 'native' ? undefined : query.dialect;
      const from = dialect ? readFrom(dialect, after) : after;
      const events = mill.events(params.id, { after: from, signal: answer.signal })[Symbol.asyncIterator]();
      const first = events.next();
      await untilKnown(first, () => mill.get(params.id));

      const format = formatFor(headers.accept);
      const projected = dialect ? inDialect(format, createProjector(dialect, mill, after)) : format;
      reply.hijack();
      metrics.subscribers.inc();
      await writeEvents(events, first, {
        response: reply.raw,
        format: shownOnly(projected, query.profile ?? 'full'),
        keepAliveMs,
        headers: reply.getHeaders() as Record<string, string>,
        describe: (error) => errorAnswer(error, requestId, redactor).body,
      });
      metrics.subscribers.dec();
    },
  });
}
