import { z } from 'zod';
import { threadItem } from '../../../shared/contract/thread/thread-items.ts';
import { maxMessages } from '../../client/threads.ts';
import type { App } from '../app.ts';
import { errorBody, threadIdParam, wholeNumberParam } from '../openapi.ts';

const seq = wholeNumberParam(0, Number.MAX_SAFE_INTEGER);

const schema = {
  summary: 'Read what was said and done in a thread',
  description:
    'Also of the run that is at work: its items are marked `live`, have no `seq`, and stand where the log ends. They are what would be kept if its turn ended now; of a turn that is to be rolled back nothing is shown. Handoffs, results and summaries are no messages: they are in the export. `next` says that there are more messages: send it as `after`, or as `before` for `order=desc`.',
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
    schema,
    config: { access: 'read' },
    handler: async ({ mill, params, query: { after, before, limit, order } }) => {
      const page = await mill.threads.messages(params.id, {
        ...(after !== undefined && { after }),
        ...(before !== undefined && { before }),
        ...(limit !== undefined && { limit }),
        ...(order !== undefined && { order }),
      });
      return { ...page, messages: [...page.messages] };
    },
  });
}
