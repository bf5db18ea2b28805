import { z } from 'zod';
import { RunError } from '../../../shared/base/errors.ts';
import { runId } from '../../../shared/base/ids.ts';
import { maxDeadlineMs } from '../../../shared/contract/agent/agent.ts';
import { runStatus } from '../../../shared/contract/run.ts';
import { cancelManyRequest, manyAnswer } from '../../client/many-runs.ts';
import { redriveRequest } from '../../client/redrive.ts';
import type { App } from '../app.ts';
import { errors, route, runIdParam } from '../openapi.ts';

const filterText =
  'Every field that is given has to fit: `agent`, `batch`, `thread`, `parent`, `status`, `errorCode`, `metadata` (each key with exactly this value), `after` and `before` (time of creation).';

const cancelManyRoute = route('write', {
  operationId: 'cancelRuns',
  summary: 'Cancel the runs that a filter fits',
  description: `${filterText} Runs that have ended are left alone. Without a filter \`all: true\` is needed. \`drain\`, \`onPendingApprovals\` and \`reason\` as for one run. A \`cursor\` in the answer says that there may be others; a request with it goes on there.`,
  body: cancelManyRequest,
  response: { 200: manyAnswer, ...errors },
});

const redriveManyRoute = route('write', {
  operationId: 'redriveRuns',
  summary: 'Redrive the failed runs that a filter fits',
  description: `${filterText} Failed runs are queued again and continue from their journals. While \`more\` is true there may be others: ask again. Runs of which only the archive is left cannot continue: \`skipped\` counts them, in each answer anew.`,
  body: redriveRequest.omit({ runId: true }),
  response: {
    200: z.object({
      matched: z.int().describe('Failed runs that the filter fits, as far as this call has looked.'),
      done: z.int().describe('Those that are queued again.'),
      redriven: z.array(runId).describe('Their ids.'),
      late: z.array(runId).describe('Left alone, as their deadline has passed: give a new `deadlineMs`.'),
      skipped: z.int().describe('How many of them cannot continue, because only the archive has them.'),
      more: z.boolean(),
    }),
    ...errors,
  },
});

const redriveRoute = route('write', {
  operationId: 'redriveRun',
  summary: 'Redrive a failed run',
  description:
    'The run is queued again and continues from its journal. One that has not failed answers 400 `validation`, one whose deadline has passed `deadline_exceeded` unless `deadlineMs` gives a new one, one of which only the archive is left 410 `gone`. The body may be empty.',
  params: runIdParam,
  body: z
    .strictObject({
      deadlineMs: z
        .int()
        .min(1)
        .max(maxDeadlineMs)
        .optional()
        .describe('Milliseconds from now until the run has to have ended.'),
    })
    .optional(),
  response: { 202: z.object({ runId, status: runStatus }), ...errors },
});

const findRoute = route('read', {
  operationId: 'findRunId',
  summary: 'Find a run by the beginning of its id',
  description:
    'At least four characters, in any case. Answers 400 `validation` when several runs fit; `details` lists them.',
  params: z.object({ beginning: z.string().describe('How the id begins') }),
  response: { 200: z.object({ runId }), ...errors },
});

/** What is done to many runs at once, or to one that is named by less than its id. */
export function manyRunRoutes(app: App): void {
  app.post('/v1/runs/cancel', cancelManyRoute, async ({ mill, body }) => await mill.cancelMany(asked(body)));
  app.post('/v1/runs/redrive', redriveManyRoute, async ({ mill, body }) => {
    if ('runId' in asked(body)) throw new RunError('validation', 'one run is redriven by POST /v1/runs/{id}/redrive');
    const { redriven, late, skipped, more } = await mill.redrive(asked(body));
    const matched = redriven.length + late.length + skipped;
    return { matched, done: redriven.length, redriven: [...redriven], late: [...late], skipped, more };
  });
  app.post('/v1/runs/:id/redrive', redriveRoute, async ({ mill, params, body }, reply) => {
    const { deadlineMs, ...unknown } = asked(body ?? {});
    if (Object.keys(unknown).length > 0)
      throw new RunError('validation', `${Object.keys(unknown)[0]}: there is only deadlineMs`);
    await mill.redrive({ runId: params.id, ...(deadlineMs !== undefined && { deadlineMs }) });
    const { runId: id, status } = await mill.get(params.id);
    return await reply.code(202).send({ runId: id, status });
  });
  app.get('/v1/run-ids/:beginning', findRoute, async ({ mill, params }) => ({
    runId: await mill.findRunId(params.beginning),
  }));
}

/** Bodies are checked by the client; what is no object is found here. */
function asked<T extends object>(body: T): T {
  if (typeof body === 'object' && body !== null && !Array.isArray(body)) return body;
  throw new RunError('validation', 'the body must be a JSON object');
}
