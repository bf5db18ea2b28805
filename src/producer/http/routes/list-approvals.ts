import { z } from 'zod';
import { publicId } from '../../../shared/base/ids.ts';
import { approvalKind, approvalView, type ApprovalsQuery } from '../../client/approvals.ts';
import type { App } from '../app.ts';
import { errorBody, wholeNumberParam } from '../openapi.ts';

const schema = {
  summary: 'List what waits for people, newest first',
  description:
    'Calls that need a grant, questions, calls whose outcome is unknown, and money, over all runs of the tenant. `id` is the `toolCallId` of a decision; for money it is the account. What one run waits for is never split, so a page may have more than `limit`, or fewer and still have a `cursor`; no cursor means the end.',
  querystring: z.object({
    agent: publicId.optional(),
    kind: approvalKind.optional(),
    cursor: z.string().max(256).optional().describe('From the previous page.'),
    limit: wholeNumberParam(1, 100).optional().describe('Default 50.'),
  }),
  response: {
    200: z.object({ approvals: z.array(approvalView), cursor: z.string().optional() }),
    '4xx': errorBody,
    '5xx': errorBody,
  },
};

/** `GET /v1/approvals`. */
export function listApprovalsRoute(app: App): void {
  app.route({
    method: 'GET',
    url: '/v1/approvals',
    schema,
    config: { access: 'read' },
    handler: async ({ mill, query }) => {
      const { approvals, cursor } = await mill.approvals(query as ApprovalsQuery);
      return { approvals: [...approvals], cursor };
    },
  });
}
