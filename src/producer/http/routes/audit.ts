import { Readable } from 'node:stream';
import { z } from 'zod';
import { defined } from '../../../shared/base/collections.ts';
import { runId } from '../../../shared/base/ids.ts';
import { jsonText } from '../../../shared/base/json.ts';
import { auditKind } from '../../../shared/contract/audit.ts';
import { auditView } from '../../client/audit/audit.ts';
import type { App } from '../app.ts';
import { errors, route, wholeNumberParam } from '../openapi.ts';

const auditRoute = route('admin', {
  operationId: 'readAudit',
  summary: 'Read the audit log',
  description:
    'Of the own tenant: what people decided, what rules denied, what guards found, changes of budgets and of keys, pauses and erasures. Entries name things and hold nothing that a user, a model or a tool wrote; they outlive what they are about, are kept for 30 days, about 50,000 of a tenant, and nothing removes one before its time. Oldest first; while there is `next` there are others: send it as `after`. With `Accept: application/x-ndjson` all entries come, one a line, oldest first, without `limit` and `order`.',
  produces: ['application/json', 'application/x-ndjson'],
  querystring: z.strictObject({
    kind: auditKind.optional(),
    run: runId.optional().describe('Only entries about this run.'),
    since: z.string().max(40).optional().describe('ISO 8601 with a zone, or `7d` for 7 days ago.'),
    after: z
      .string()
      .max(64)
      .optional()
      .describe('`next` of the page before, or the `id` of an entry: what is behind it in this order.'),
    order: z.enum(['oldest', 'newest']).optional().describe('Which come first. Default `oldest`.'),
    limit: wholeNumberParam(1, 500).optional().describe('Default 100.'),
  }),
  response: {
    200: z.object({ entries: z.array(auditView), next: z.string().optional() }),
    ...errors,
  },
});

export function auditRoutes(app: App): void {
  app.get('/v1/audit', auditRoute, async ({ mill, query, headers }, reply) => {
    if (!/\bapplication\/x-ndjson\b/.test(headers.accept ?? '')) {
      const { entries, next } = await mill.audit(defined(query));
      return { entries: [...entries], next };
    }
    const { limit: _, order: __, ...wanted } = query;
    const lines = mill.auditEntries(defined(wanted));
    // An error that is known before the first line is JSON with its status.
    const first = await lines.next();
    const written = async function* () {
      for (let line = first; !line.done; line = await lines.next()) yield `${jsonText(line.value)}\n`;
    };
    const body = Readable.from(written(), { objectMode: false });
    return await reply.type('application/x-ndjson; charset=utf-8').send(body as never);
  });
}
