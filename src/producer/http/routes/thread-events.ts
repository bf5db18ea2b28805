import { z } from 'zod';
import { jsonText } from '../../../shared/base/json-text.ts';
import { maxThreadEvents } from '../../../shared/contract/thread/thread-event.ts';
import type { App } from '../app.ts';
import { errorBody, threadIdParam, wholeNumberParam } from '../openapi.ts';

const schema = {
  summary: 'Read what followed the runs of a thread',
  description:
    'One JSON document a line, oldest first: `thread.title_generated`, `thread.embedding_done`, `postrun.failed`, each with its `sequenceNumber`. The newest 1,000 of a thread are kept. An answer with as many lines as `limit` may have more behind it: send the number of its last line as `after`.',
  produces: ['application/x-ndjson'],
  params: threadIdParam,
  querystring: z.object({
    after: wholeNumberParam(0, Number.MAX_SAFE_INTEGER).optional().describe('Only events with a higher number.'),
    limit: wholeNumberParam(1, maxThreadEvents).optional().describe('Default 100.'),
  }),
  response: { '4xx': errorBody, '5xx': errorBody },
};

/** `GET /v1/threads/:id/events`. */
export function threadEventsRoute(app: App): void {
  app.route({
    method: 'GET',
    url: '/v1/threads/:id/events',
    schema,
    config: { access: 'read' },
    handler: async ({ mill, params, query: { after, limit } }, reply) => {
      const { events } = await mill.threads.events(params.id, {
        ...(after !== undefined && { after }),
        ...(limit !== undefined && { limit }),
      });
      const lines = events.map((event) => `${jsonText(event)}\n`).join('');
      return await reply.type('application/x-ndjson; charset=utf-8').send(lines as never);
    },
  });
}
