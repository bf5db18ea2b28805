import { defined } from '../../../shared/base/defined.ts';
import { z } from 'zod';
import { costReport } from '../../client/costs.ts';
import type { App } from '../app.ts';
import { errorBody } from '../openapi.ts';

const schema = {
  summary: 'Read costs',
  description:
    'What the model calls of the own tenant cost, by day (UTC), agent and model, from counters that outlive the runs. Amounts are microcents (1e-8 USD).',
  querystring: z.object({
    from: z.string().optional().describe('First day, `YYYY-MM-DD` (UTC). Default: six days before `to`.'),
    to: z.string().optional().describe('Last day, included. Default: today. At most 400 days from `from`.'),
    by: z
      .string()
      .optional()
      .describe(
        'What to group by: any of `tenant`, `agent`, `model`, `day`, separated by commas. Default: `day,agent,model`.',
      ),
  }),
  response: { 200: costReport, '4xx': errorBody, '5xx': errorBody },
};

/** `GET /v1/costs`. */
export function costsRoute(app: App): void {
  app.route({
    method: 'GET',
    url: '/v1/costs',
    schema,
    config: { access: 'read' },
    handler: async ({ mill, query: { from, to, by } }) =>
      await mill.costs(
        defined({ from, to, by: by === undefined ? undefined : (by.split(',').map((name) => name.trim()) as never) }),
      ),
  });
}
