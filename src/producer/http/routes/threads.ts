import { defined } from '../../../shared/base/defined.ts';
import { z } from 'zod';
import { publicId } from '../../../shared/base/ids.ts';
import { threadView } from '../../../shared/contract/thread/thread-items.ts';
import { threadChanges, type ThreadChanges } from '../../client/threads.ts';
import type { App } from '../app.ts';
import { errorBody, threadIdParam, wholeNumberParam } from '../openapi.ts';

const errors = { '4xx': errorBody, '5xx': errorBody };

const listSchema = {
  summary: 'List threads, last changed first',
  description:
    'A page may have fewer threads than `limit`, even none, and still have a `cursor`; no cursor means the end.',
  querystring: z.object({
    agent: publicId.optional().describe('Only threads of this agent.'),
    cursor: z.string().max(256).optional().describe('From the previous page.'),
    limit: wholeNumberParam(1, 100).optional().describe('Default 50.'),
  }),
  response: { 200: z.object({ threads: z.array(threadView), cursor: z.string().optional() }), ...errors },
};

const getSchema = {
  summary: 'Read a thread',
  description: 'Which run has its lock, how many runs wait, and whether the lock owner is suspended.',
  params: threadIdParam,
  response: { 200: threadView, ...errors },
};

const updateSchema = {
  summary: 'Change the title or the task of a thread',
  description: 'At any time, also while a run has the lock. `null` removes a field.',
  params: threadIdParam,
  body: threadChanges,
  response: { 200: threadView, ...errors },
};

const deleteSchema = {
  summary: 'Delete a thread',
  description:
    'With its whole log. While a run has its lock or waits for it: 409 `concurrent_run`, and `details.runs` names the runs.',
  params: threadIdParam,
  response: { 200: z.object({ threadId: z.string(), deleted: z.literal(true) }), ...errors },
};

const purgeSchema = {
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
};

/** `GET /v1/threads`. */
export function listThreadsRoute(app: App): void {
  app.route({
    method: 'GET',
    url: '/v1/threads',
    schema: listSchema,
    config: { access: 'read' },
    handler: async ({ mill, query: { agent, cursor, limit } }) => {
      const page = await mill.threads.list(defined({ agent, cursor, limit }));
      return { ...page, threads: [...page.threads] };
    },
  });
}

/** `GET /v1/threads/:id`. */
export function getThreadRoute(app: App): void {
  app.route({
    method: 'GET',
    url: '/v1/threads/:id',
    schema: getSchema,
    config: { access: 'read' },
    handler: async ({ mill, params }) => await mill.threads.get(params.id),
  });
}

/** `PATCH /v1/threads/:id`. */
export function updateThreadRoute(app: App): void {
  app.route({
    method: 'PATCH',
    url: '/v1/threads/:id',
    schema: updateSchema,
    config: { access: 'write' },
    handler: async ({ mill, params, body }) => await mill.threads.update(params.id, body as ThreadChanges),
  });
}

/** `DELETE /v1/threads/:id`. */
export function deleteThreadRoute(app: App): void {
  app.route({
    method: 'DELETE',
    url: '/v1/threads/:id',
    schema: deleteSchema,
    config: { access: 'write' },
    handler: async ({ mill, params }) => {
      await mill.threads.delete(params.id);
      return { threadId: params.id, deleted: true as const };
    },
  });
}

/** `DELETE /v1/threads`. */
export function purgeThreadsRoute(app: App): void {
  app.route({
    method: 'DELETE',
    url: '/v1/threads',
    schema: purgeSchema,
    config: { access: 'admin' },
    handler: async ({ mill, query: { cursor } }) => {
      const purged = await mill.threads.purge(cursor === undefined ? {} : { cursor });
      return { ...purged, kept: [...purged.kept] };
    },
  });
}
