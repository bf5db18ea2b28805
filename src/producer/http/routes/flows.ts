import { z } from 'zod';
import { publicId, runId } from '../../../shared/base/ids.ts';
import { flowRule } from '../../../shared/contract/flow.ts';
import { flowReport } from '../../client/flows/flow-report.ts';
import { flowKind, flowView, foundDecision } from '../../client/flows/flows.ts';
import type { App } from '../app.ts';
import { errors, route, wholeNumberParam } from '../openapi.ts';

/** Checked by the client; here it is only described. */
const time = z.string().max(40);

const flowsRoute = route('read', {
  operationId: 'listFlows',
  summary: 'List what guards found, newest first',
  description:
    'The audit stream of the own tenant: calls that the data-flow policy flagged, asked about, blocked or let through, and leaks between agents. It names runs, agents, tools, arguments and sources, and never shows a value. Entries outlive their runs: they are kept for 30 days, about 50,000 of a tenant. A page may have fewer entries than `limit`, even none, and still have a `cursor`; no cursor means the end.',
  querystring: z.strictObject({
    kind: flowKind
      .optional()
      .describe('`flow`: what the data-flow policy found. `leak`: what the guards between agents found.'),
    decision: foundDecision.optional(),
    rule: flowRule.optional().describe('Only calls with a finding by this rule.'),
    tool: z.string().max(256).optional(),
    agent: publicId.optional(),
    run: runId.optional(),
    since: time
      .optional()
      .describe('Only what was found at this time or later: ISO 8601 with a zone, or `7d` for 7 days ago.'),
    until: time.optional().describe('Only what was found before this time.'),
    cursor: z.string().max(256).optional().describe('From the previous page.'),
    after: z.string().max(256).optional().describe('`newest` of an earlier list: only entries that have come since.'),
    limit: wholeNumberParam(1, 100).optional().describe('Default 50.'),
  }),
  response: {
    200: z.object({
      flows: z.array(flowView),
      cursor: z.string().optional(),
      newest: z
        .string()
        .describe(
          'Where the newest entry of the first page is. As `after` of a later request it asks for what has come since.',
        ),
    }),
    ...errors,
  },
});

const reportRoute = route('read', {
  operationId: 'reportFlows',
  summary: 'Report what guards found, by tool and by rule',
  description:
    'Counts the entries of the audit stream. `flagged` is what `enforce` would have stopped. One request counts at most the newest 20,000 entries; `partial` says that there are more, or were.',
  querystring: z.strictObject({
    since: time
      .optional()
      .describe('A time of the last 30 days: ISO 8601 with a zone, or `7d` for 7 days ago, the default.'),
  }),
  response: { 200: flowReport, ...errors },
});

export function flowRoutes(app: App): void {
  app.get('/v1/flows', flowsRoute, async ({ mill, query }) => {
    const { flows, cursor, newest } = await mill.flows(query);
    return { flows: [...flows], cursor, newest };
  });
  app.get('/v1/flows/report', reportRoute, async ({ mill, query }) => await mill.flowReport(query));
}
