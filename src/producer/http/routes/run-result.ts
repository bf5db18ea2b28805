import { z } from 'zod';
import { isTerminalStatus, runOutcomeView } from '../../../shared/contract/run.ts';
import type { App, Services } from '../app.ts';
import { errorBody, runIdParam } from '../openapi.ts';

const maxWaitS = 60;

const seconds = z
  .string()
  .refine((text) => /^\d{1,3}(\.\d{1,3})?$/.test(text), 'must be a number of seconds')
  .meta({ type: 'number', minimum: 0, maximum: maxWaitS })
  .transform(Number)
  .pipe(z.number().max(maxWaitS));

const schema = {
  summary: 'Wait for the result of a run',
  description:
    'Answers 200 once the run has ended, however it ended, and 202 with its status when `wait` is over before.',
  params: runIdParam,
  querystring: z.object({ wait: seconds.optional().describe('Seconds to wait, 0 to 60. Default 0: answers at once.') }),
  response: { 200: runOutcomeView, 202: runOutcomeView, '4xx': errorBody, '5xx': errorBody },
};

/** `GET /v1/runs/:id/result`. A client that goes away ends the wait; when the process leaves, the wait is over early. */
export function runResultRoute(app: App, { openAnswers }: Services): void {
  app.route({
    method: 'GET',
    url: '/v1/runs/:id/result',
    schema,
    config: { access: 'read', waits: true },
    handler: async ({ mill, params, query }, reply) => {
      using answer = openAnswers.wait(reply.raw);
      const waitMs = (query.wait ?? 0) * 1_000;
      const outcome = await mill.result(params.id, { waitMs, signal: answer.signal }).catch(async (error: unknown) => {
        if (!answer.signal.aborted) throw error;
        return await mill.result(params.id, { waitMs: 0 });
      });
      return await reply.code(isTerminalStatus(outcome.status) ? 200 : 202).send(outcome);
    },
  });
}
