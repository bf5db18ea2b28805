import { z } from 'zod';
import { decisionRequest } from '../../../shared/control.ts';
import { budgetView } from '../../../shared/money.ts';
import { runStatus } from '../../../shared/run.ts';
import type { App } from '../app.ts';
import { errorBody, runIdParam, topUpKey } from '../openapi.ts';

const schema = {
  summary: 'Decide about a run that waits',
  description:
    'For a run that is suspended for money. `approve`: the step that waits may pass the caps. `reject`: the run ends with `budget_exceeded`. A top-up adds money to the account that the run waits for; the run goes on once it is enough. A run that does not wait for money answers 409 `approval_not_pending`, one that has ended 409 `already_terminal`.',
  params: runIdParam,
  headers: topUpKey,
  body: decisionRequest,
  response: {
    202: z.object({
      runId: z.string(),
      status: runStatus,
      budget: budgetView.optional().describe('After a top-up: the account.'),
    }),
    '4xx': errorBody,
    '5xx': errorBody,
  },
};

/** `POST /v1/runs/:id/decisions`. */
export function decideRun(app: App): void {
  app.route({
    method: 'POST',
    url: '/v1/runs/:id/decisions',
    schema,
    config: { access: 'approve' },
    handler: async ({ mill, caller, params, headers, body }, reply) => {
      const idempotencyKey = headers['idempotency-key'];
      const { run, budget } = await mill.decide(params.id, body, {
        by: caller,
        ...(idempotencyKey !== undefined && { idempotencyKey }),
      });
      return await reply.code(202).send({ runId: run.runId, status: run.status, ...(budget && { budget }) });
    },
  });
}
