import { defined } from '../../../shared/base/defined.ts';
import { z } from 'zod';
import { threadItem } from '../../../shared/contract/thread/thread-items.ts';
import { maxMessages } from '../../client/threads.ts';
import type { App } from '../app.ts';
import { errorBody, threadIdParam, wholeNumberParam } from '../openapi.ts';
import { jsonText } from '../../../shared/base/json-text.ts';
import { maxThreadEvents } from '../../../shared/contract/thread/thread-event.ts';
import { Readable } from 'node:stream';

const seq = wholeNumberParam(0, Number.MAX_SAFE_INTEGER);

const threadMessagesSchema = {
  summary: 'Read the messages of a thread',
  description:
    'Items of the running run are marked `live`, have no `seq`, and come where the log ends. They are what would be kept if its turn ended now; of a turn that will be rolled back nothing is shown. Handoffs, results and summaries are no messages: they are in the export. `next` says that there are more messages: send it as `after`, or as `before` for `order=desc`.',
  params: threadIdParam,
  querystring: z.object({
    after: seq.optional().describe('Only messages with a higher number.'),
    before: seq.optional().describe('Only messages with a lower number, and nothing that is live.'),
    limit: wholeNumberParam(1, maxMessages)
      .optional()
      .describe('Messages, default 100. One may show as several items.'),
    order: z.enum(['asc', 'desc']).optional().describe('Default `asc`: oldest first.'),
  }),
  response: {
    200: z.object({ messages: z.array(threadItem), next: z.int().optional() }),
    '4xx': errorBody,
    '5xx': errorBody,
  },
};

/** `GET /v1/threads/:id/messages`. */
export function threadMessagesRoute(app: App): void {
  app.route({
    method: 'GET',
    url: '/v1/threads/:id/messages',
    schema: threadMessagesSchema,
    config: { access: 'read' },
    handler: async ({ mill, params, query: { after, before, limit, order } }) => {
      const page = await mill.threads.messages(params.id, defined({ after, before, limit, order }));
      return { ...page, messages: [...page.messages] };
    },
  });
}

const threadEventsSchema = {
  summary: 'Read the events of a thread',
  description:
    'What post-run jobs made. One JSON document a line, oldest first: `thread.title_generated`, `thread.embedding_done`, `postrun.failed`, each with its `sequenceNumber`. The newest 1,000 of a thread are kept. An answer with as many lines as `limit` may have more behind it: send the number of its last line as `after`.',
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
    schema: threadEventsSchema,
    config: { access: 'read' },
    handler: async ({ mill, params, query: { after, limit } }, reply) => {
      const { events } = await mill.threads.events(params.id, defined({ after, limit }));
      const lines = events.map((event) => `${jsonText(event)}\n`).join('');
      return await reply.type('application/x-ndjson; charset=utf-8').send(lines as never);
    },
  });
}

const exportThreadSchema = {
  summary: 'Export a thread',
  description:
    'One JSON document a line: the thread, then every entry of its log as it is kept, with its number. A handoff has the descriptor of its filter, and with the other lines what is needed to rebuild what crossed. What the running run has done is not in it yet. A connection that breaks off before the end of the answer is an export that failed.',
  produces: ['application/x-ndjson'],
  params: threadIdParam,
  response: { '4xx': errorBody, '5xx': errorBody },
};

/** `GET /v1/threads/:id/export`. Errors that are known before the first line are JSON with their status. */
export function exportThreadRoute(app: App): void {
  app.route({
    method: 'GET',
    url: '/v1/threads/:id/export',
    schema: exportThreadSchema,
    config: { access: 'read', waits: true },
    handler: async ({ mill, params }, reply) => {
      const lines = mill.threads.export(params.id);
      const first = await lines.next();
      const written = async function* () {
        for (let line = first; !line.done; line = await lines.next()) yield `${jsonText(line.value)}\n`;
      };
      const body = Readable.from(written(), { objectMode: false });
      return await reply.type('application/x-ndjson; charset=utf-8').send(body as never);
    },
  });
}
