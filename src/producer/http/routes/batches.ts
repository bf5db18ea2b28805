import { z } from 'zod';
import { jsonText } from '../../../shared/base/json.ts';
import { publicId, sha256 } from '../../../shared/base/ids.ts';
import { batchRequest, batchView, type BatchView } from '../../../shared/contract/batch.ts';
import type { App, Services } from '../app.ts';
import { bytesAnswer, sendBytes } from '../send-bytes.ts';
import { sendStream, type Framing } from '../event-stream.ts';
import { route, wholeNumberParam } from '../openapi.ts';
import { begun } from '../upload.ts';
import { wireJson } from '../wire-json.ts';
import { answerErrorsAsOpenAi, wireErrors } from './openai/error-shape.ts';

const params = z.object({ id: z.string().describe('Batch id') });
const answers = { 200: batchView, ...wireErrors };

const createRoute = route('write', {
  operationId: 'createBatch',
  summary: 'Run the lines of a file',
  description:
    "Accepts a batch over a file that was uploaded with the purpose `batch`: lines of OpenAI's API (`/v1/responses`, `/v1/chat/completions`; `model` is the agent), or with the endpoint `/v1/runs` lines of our own, JSONL or CSV by the file's name. It goes on whatever becomes of its caller, and stays until every line has its outcome, it is cancelled, or its `completion_window` ends. With `quote` a sample runs first.",
  headers: z.object({
    'idempotency-key': publicId.optional().describe('The same key again answers with the batch that it has made.'),
    'x-stainless-retry-count': z
      .string()
      .optional()
      .describe(
        'Above 0: the same request may have made a batch within the last ten minutes, which is the answer then.',
      ),
  }),
  body: batchRequest,
  response: answers,
});

const listRoute = route('read', {
  operationId: 'listBatches',
  summary: 'List batches',
  description: 'Newest first. An ended batch is kept as long as its files.',
  querystring: z.object({
    after: z.string().optional().describe('The last id of the page before.'),
    limit: wholeNumberParam(1, 100).optional().describe('Default 20.'),
  }),
  response: {
    200: z.object({
      object: z.literal('list'),
      data: z.array(batchView),
      first_id: z.string().nullable(),
      last_id: z.string().nullable(),
      has_more: z.boolean(),
    }),
    ...wireErrors,
  },
});

const getRoute = route('read', {
  operationId: 'getBatch',
  summary: 'Read a batch',
  description: 'Its status, counts, cost, quote and the time that it is likely to need.',
  params,
  response: answers,
});

const eventsRoute = {
  schema: {
    operationId: 'followBatch',
    summary: 'Follow a batch',
    description:
      'Server-sent events `batch`, each the batch as `GET /v1/batches/{id}` shows it: one at once, and one whenever it has changed, at most one a second. Ends after the end of the batch; a stream that ends sooner is opened again.',
    params,
    response: {
      200: { description: 'Events `batch`.', content: { 'text/event-stream': { schema: batchView } } },
      ...wireErrors,
    },
  },
  config: { access: 'read', waits: true },
} as const;

const resultsRoute = route('read', {
  operationId: 'readBatchResults',
  summary: 'Read the results of a batch, also before it has ended',
  description:
    'The results of the lines that have one by now, as the files of the batch have them or will: lines of JSONL, or a CSV with its header. Empty where there is none. Those of a batch that has ended are as long there as its files.',
  params,
  querystring: z.object({
    of: z
      .enum(['all', 'answers', 'errors'])
      .optional()
      .describe('Lines with an answer, lines without one, or all, first those with one. Default `all`.'),
  }),
  response: { 200: bytesAnswer, ...wireErrors },
});

const pauseRoute = route('write', {
  operationId: 'pauseBatch',
  summary: 'Pause a batch',
  description: 'No further line is begun; what is open goes on. One that has ended or ends answers 409.',
  params,
  response: answers,
});

const resumeRoute = route('write', {
  operationId: 'resumeBatch',
  summary: 'Resume a batch',
  description: 'Goes on with a batch that is paused, or that waits with its quote.',
  params,
  response: answers,
});

const cancelRoute = route('write', {
  operationId: 'cancelBatch',
  summary: 'Cancel a batch',
  description:
    'Stops its open runs and begins no further line. The answers that there are become its output; the other lines are errors with the code `cancelled`.',
  params,
  response: answers,
});

const redriveRoute = route('write', {
  operationId: 'redriveBatch',
  summary: 'Run the failed lines of a batch again',
  description:
    'Failed runs continue from their journals. A batch that has ended is open again for another completion window, and its files are made anew with one entry for each line.',
  params,
  response: { 200: z.object({ batch: batchView, lines: z.int().describe('Lines that run again.') }), ...wireErrors },
});

const framing: Framing<BatchView> = {
  contentType: 'text/event-stream; charset=utf-8',
  keepAlive: ': keep-alive\n\n',
  frame: (view) => Buffer.from(`event: batch\ndata: ${wireJson(view)}\n\n`),
  failure: (body) => `event: error\ndata: ${wireJson(body)}\n\n`,
};

/** Batches, with OpenAI's routes and some of our own. Errors have OpenAI's shape. */
export function batchRoutes(app: App, services: Services): void {
  answerErrorsAsOpenAi(app, services);
  app.post('/v1/batches', createRoute, async ({ mill, body, headers, caller }) => {
    const isRepeat = Number(headers['x-stainless-retry-count'] ?? 0) > 0;
    const digest = sha256(jsonText([caller, body]));
    const options = { idempotencyKey: headers['idempotency-key'], repeat: { digest, isRepeat } };
    return await mill.batches.create(body, options);
  });
  app.get('/v1/batches', listRoute, async ({ mill, query }) => {
    const { data, has_more } = await mill.batches.list(query);
    const [first, last] = [data[0]?.id ?? null, data.at(-1)?.id ?? null];
    return { object: 'list' as const, data: [...data], first_id: first, last_id: last, has_more };
  });
  app.get('/v1/batches/:id', getRoute, async ({ mill, params: { id } }) => await mill.batches.get(id));
  app.get('/v1/batches/:id/events', eventsRoute, async ({ mill, params: { id } }, reply) => {
    using answer = services.openAnswers.wait(reply.raw);
    const views = mill.batches.events(id, { signal: answer.signal })[Symbol.asyncIterator]();
    await sendStream(views, { framing, look: () => mill.batches.get(id) }, reply, services);
  });
  app.get('/v1/batches/:id/results', resultsRoute, async ({ mill, params: { id }, query }, reply) => {
    const { format } = await mill.batches.get(id);
    const bytes = await begun(mill.batches.results(id, query));
    const type = format === 'csv' ? 'text/csv' : 'application/jsonl';
    return await sendBytes(reply, bytes, { type, filename: `${id}_${query.of ?? 'all'}.${format}` });
  });
  app.post('/v1/batches/:id/pause', pauseRoute, async ({ mill, params: { id } }) => await mill.batches.pause(id));
  app.post('/v1/batches/:id/resume', resumeRoute, async ({ mill, params: { id } }) => await mill.batches.resume(id));
  app.post('/v1/batches/:id/cancel', cancelRoute, async ({ mill, params: { id } }) => await mill.batches.cancel(id));
  app.post('/v1/batches/:id/redrive', redriveRoute, async ({ mill, params: { id } }) => await mill.batches.redrive(id));
}
