import { z } from 'zod';
import { cancelRequest } from '../../../shared/contract/control.ts';
import { isTerminalStatus, runStatus } from '../../../shared/contract/run.ts';
import type { App } from '../app.ts';
import { errorBody, runIdParam } from '../openapi.ts';

const schema = {
  summary: 'Cancel a run',
  description:
    'A run that waits ends at once; one that works stops soon after, with `drain` after its current step. `onPendingApprovals` says what happens to what waits for people: `deny` (default): the calls are denied and the run is cancelled; `fail`: the run fails with `run_aborted`; `hold`: a run that waits for people goes on waiting (`held`), and can still be decided about. Asking again changes nothing. A run that has ended answers 409 `already_terminal`. The body may be empty.',
  params: runIdParam,
  body: cancelRequest.optional(),
  response: {
    202: z.object({
      runId: z.string(),
      status: runStatus,
      cancelling: z.boolean(),
      held: z.literal(true).optional().describe('The run goes on waiting for people: nothing was stopped.'),
    }),
    '4xx': errorBody,
    '5xx': errorBody,
  },
};

/** `POST /v1/runs/:id/cancel`. */
export function cancelRunRoute(app: App): void {
  app.route({
    method: 'POST',
    url: '/v1/runs/:id/cancel',
    schema,
    config: { access: 'write' },
    handler: async ({ mill, params, body }, reply) => {
      const { runId, status, cancelling } = await mill.cancel(params.id, body ?? {});
      const held = !cancelling && !isTerminalStatus(status);
      return await reply.code(202).send({ runId, status, cancelling, held: held ? true : undefined });
    },
  });
}
