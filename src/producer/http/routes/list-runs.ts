import { z } from 'zod';
import { publicId, runId } from '../../../shared/base/ids.ts';
import { runStatus, runView } from '../../../shared/contract/run.ts';
import type { ListQuery } from '../../client/options.ts';
import type { App } from '../app.ts';
import { errorBody, wholeNumberParam } from '../openapi.ts';

const schema = {
  summary: 'List runs, newest first',
  description:
    'A page may hold fewer runs than `limit`, even none, and still have a `cursor`; no cursor means the end.',
  querystring: z.object({
    status: runStatus.optional(),
    agent: publicId.optional(),
    thread: publicId.optional(),
    parent: runId.optional().describe('Only runs that work for this one.'),
    cursor: z.string().max(256).optional().describe('From the previous page.'),
    limit: wholeNumberParam(1, 100).optional().describe('Default 50.'),
  }),
  response: {
    200: z.object({ runs: z.array(runView), cursor: z.string().optional() }),
    '4xx': errorBody,
    '5xx': errorBody,
  },
};

/** `GET /v1/runs`. */
export function listRunsRoute(app: App): void {
  app.route({
    method: 'GET',
    url: '/v1/runs',
    schema,
    config: { access: 'read' },
    handler: async ({ mill, query }) => {
      const { runs, cursor } = await mill.list(query as ListQuery);
      return { runs: [...runs], cursor };
    },
  });
}
