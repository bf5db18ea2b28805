import { z } from 'zod';
import { defined } from '../../../shared/base/collections.ts';
import { seriesReport } from '../../../shared/contract/report/series.ts';
import type { App } from '../app.ts';
import { errors, route } from '../openapi.ts';

const seriesRoute = route('read', {
  operationId: 'readSeries',
  summary: 'Read what runs did over time',
  description:
    'For charts: runs that were queued, began and ended, their errors, waits, tokens, cost and calls, by steps of time, of the own tenant. From counters that producers keep: steps of 10 seconds for an hour, of 10 minutes for a week. Each event counts once; a new one shows within about two seconds.',
  querystring: z.object({
    from: z.string().optional().describe('A time, or so long ago, like `1h`, `7d`. Default: an hour ago.'),
    to: z.string().optional().describe('The same. Default: now.'),
    step: z
      .string()
      .optional()
      .describe(
        'Seconds of one step: a multiple of 10 within the last hour, else of 600. Default: 10 or 600. At most 1,008 steps.',
      ),
  }),
  response: { 200: seriesReport, ...errors },
});

export function seriesRoutes(app: App): void {
  app.get('/v1/metrics/series', seriesRoute, async ({ mill, query: { from, to, step } }) => {
    return await mill.series(defined({ from, to, step: step === undefined ? undefined : Number(step) }));
  });
}
