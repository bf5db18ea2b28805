import { z } from 'zod';
import { defined } from '../../../shared/base/collections.ts';
import { publicId } from '../../../shared/base/ids.ts';
import { threadView, threadItem } from '../../../shared/contract/thread/thread-items.ts';
import { threadChanges, maxMessages } from '../../client/threads.ts';
import type { App } from '../app.ts';
import { errors, route, threadIdParam, wholeNumberParam } from '../openapi.ts';
import { jsonText } from '../../../shared/base/json.ts';
import { RunError } from '../../../shared/base/errors.ts';
import { erasureReceipt } from '../../../shared/contract/erasure/receipt.ts';
import { maxThreadEvents } from '../../../shared/contract/thread/thread.ts';
import { erasureHeaders } from './erasures.ts';
import { Readable } from 'node:stream';

const listRoute = route('read', {
  operationId: 'listThreads',
  summary: 'List threads, last changed first',
  description:
    'A page may have fewer threads than `limit`, even none, and still have a `cursor`; no cursor means the end.',
  querystring: z.object({
    agent: publicId.optional().describe('Only threads of this agent.'),
    cursor: z.string().max(256).optional().describe('From the previous page.'),
    limit: wholeNumberParam(1, 100).optional().describe('Default 50.'),
  }),
  response: { 200: z.object({ threads: z.array(threadView), cursor: z.string().optional() }), ...errors },
});

const getRoute = route('read', {
  operationId: 'getThread',
  summary: 'Read a thread',
  description: 'Which run has its lock, how many runs wait, and whether the lock owner is suspended.',
  params: threadIdParam,
  response: { 200: threadView, ...errors },
});

const updateRoute = route('write', {
  operationId: 'updateThread',
  summary: 'Change the title or the task of a thread',
  description: 'At any time, also while a run has the lock. `null` removes a field.',
  params: threadIdParam,
  body: threadChanges,
  response: { 200: threadView, ...errors },
});

const deleteRoute = route('write', {
  operationId: 'deleteThread',
  summary: 'Delete a thread',
  description:
    'With its whole log; `runs=true` (scope `admin` as well): with all of its runs, as `DELETE /v1/runs/{id}` erases them, and the answer has a signed receipt. While a run has its lock or waits for it: 409 `concurrent_run`, and `details.runs` names the runs.',
  headers: erasureHeaders,
  params: threadIdParam,
  querystring: z.strictObject({
    runs: z.enum(['true', 'false']).optional().describe('`true`: erase its runs, too.'),
    cancel: z.enum(['true', 'false']).optional().describe('With `runs=true`: cancel what has not ended first.'),
  }),
  response: {
    200: z.object({ threadId: z.string(), deleted: z.literal(true), receipt: erasureReceipt.optional() }),
    ...errors,
  },
});

const purgeRoute = route('admin', {
  operationId: 'purgeThreads',
  summary: 'Delete all threads of the tenant',
  description:
    'At most 500 with one request; send it again with the `cursor` of the answer until there is none. Threads in use, and those that change after the first request, are kept. Needs the scope `admin`.',
  querystring: z.object({
    confirm: z.literal('all').describe('Says that this is meant.'),
    cursor: z.string().max(256).optional().describe('From the previous answer.'),
  }),
  response: {
    200: z.object({
      removed: z.int(),
      kept: z.array(z.string()).describe('Threads in use.'),
      cursor: z.string().optional(),
    }),
    ...errors,
  },
});

const seq = wholeNumberParam(0, Number.MAX_SAFE_INTEGER);

const threadMessagesRoute = route('read', {
  operationId: 'listThreadMessages',
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
    ...errors,
  },
});

const threadEventsRoute = route('read', {
  operationId: 'listThreadEvents',
  summary: 'Read the events of a thread',
  description:
    'What post-run jobs made. One JSON document a line, oldest first: `thread.title_generated`, `thread.embedding_done`, `postrun.failed`, each with its `sequenceNumber`. The newest 1,000 of a thread are kept. An answer with as many lines as `limit` may have more behind it: send the number of its last line as `after`.',
  produces: ['application/x-ndjson'],
  params: threadIdParam,
  querystring: z.object({
    after: wholeNumberParam(0, Number.MAX_SAFE_INTEGER).optional().describe('Only events with a higher number.'),
    limit: wholeNumberParam(1, maxThreadEvents).optional().describe('Default 100.'),
  }),
  response: { ...errors },
});

const exportThreadSchema = {
  operationId: 'exportThread',
  summary: 'Export a thread',
  description:
    'One JSON document a line: the thread, then every entry of its log as it is kept, with its number. A handoff has the descriptor of its filter, and with the other lines what is needed to rebuild what crossed. What the running run has done is not in it yet. A connection that breaks off before the end of the answer is an export that failed.',
  produces: ['application/x-ndjson'],
  params: threadIdParam,
  response: { ...errors },
};

export function threadRoutes(app: App): void {
  app.get('/v1/threads', listRoute, async ({ mill, query }) => {
    const page = await mill.threads.list(query);
    return { ...page, threads: [...page.threads] };
  });
  app.get('/v1/threads/:id', getRoute, async ({ mill, params }) => await mill.threads.get(params.id));
  app.patch(
    '/v1/threads/:id',
    updateRoute,
    async ({ mill, params, body }) => await mill.threads.update(params.id, body),
  );
  app.delete('/v1/threads/:id', deleteRoute, async ({ mill, params, query: { runs, cancel }, headers }) => {
    if (runs === 'true') {
      const idempotencyKey = headers['idempotency-key'];
      const asked = defined({ thread: params.id, cancel: cancel === 'true', idempotencyKey });
      const { receipt } = await mill.erase(asked);
      return { threadId: params.id, deleted: true as const, receipt };
    }
    if (cancel !== undefined) throw new RunError('validation', 'cancel: needs runs=true');
    await mill.threads.delete(params.id);
    return { threadId: params.id, deleted: true as const };
  });
  app.delete('/v1/threads', purgeRoute, async ({ mill, query: { cursor } }) => {
    const purged = await mill.threads.purge(cursor === undefined ? {} : { cursor });
    return { ...purged, kept: [...purged.kept] };
  });
  app.get('/v1/threads/:id/messages', threadMessagesRoute, async ({ mill, params, query }) => {
    const page = await mill.threads.messages(params.id, query);
    return { ...page, messages: [...page.messages] };
  });
  app.get('/v1/threads/:id/events', threadEventsRoute, async ({ mill, params, query }, reply) => {
    const { events } = await mill.threads.events(params.id, query);
    const lines = events.map((event) => `${jsonText(event)}\n`).join('');
    return await reply.type('application/x-ndjson; charset=utf-8').send(lines as never);
  });
  // Errors that are known before the first line are JSON with their status.
  app.get(
    '/v1/threads/:id/export',
    { schema: exportThreadSchema, config: { access: 'read', waits: true } },
    async ({ mill, params }, reply) => {
      const lines = mill.threads.export(params.id);
      const first = await lines.next();
      const written = async function* () {
        for (let line = first; !line.done; line = await lines.next()) yield `${jsonText(line.value)}\n`;
      };
      const body = Readable.from(written(), { objectMode: false });
      return await reply.type('application/x-ndjson; charset=utf-8').send(body as never);
    },
  );
}
