import { defined } from '../../../shared/base/collections.ts';
import { z } from 'zod';
import { decisionRequest, type DecisionInput, cancelRequest } from '../../../shared/contract/control.ts';
import { decisionView } from '../../../shared/contract/decisions.ts';
import { RunError } from '../../../shared/base/errors.ts';
import { pendingView } from '../../../shared/contract/event.ts';
import { budgetView } from '../../../shared/contract/money.ts';
import { runStatus, isTerminalStatus } from '../../../shared/contract/run.ts';
import type { App } from '../app.ts';
import { errors, route, runIdParam, topUpKey, wholeNumberParam } from '../openapi.ts';
import { publicId } from '../../../shared/base/ids.ts';
import { approvalKind, approvalView } from '../../../shared/contract/inbox/approvals.ts';

const decideRoute = route('approve', {
  operationId: 'decideRun',
  summary: 'Decide about a run that waits',
  description:
    'For a run that waits for people. `approvals` grants or denies calls, with other arguments in `updatedArgs`, which have to fit the tool’s schema (400 otherwise, and nothing is decided); `answers` answers questions, or gives the result of a call that was carried out elsewhere. All of it takes effect, or nothing; the run goes on as soon as one call is decided, and what is left stays pending. The same decision again is accepted and changes nothing; another one about a decided call answers 409 `approval_not_pending`, one after its time 409 `approval_expired`. Where a call needs several people, it is granted when enough of them granted it; one denial decides. Who decides is the API key; without keys it is `by`. `budget` is for a run that is suspended for money: `approve`: the step that waits may pass the caps. `reject`: the run ends with `budget_exceeded`. A top-up adds money to the account that the run waits for; the run goes on once it is enough. Where that is the tenant, approving and topping up need the scope `admin` as well. A run that has ended answers 409 `already_terminal`.',
  params: runIdParam,
  headers: topUpKey,
  body: decisionRequest.safeExtend({
    by: z.string().min(1).max(200).optional().describe('Who decides, where the producer has no API keys.'),
  }),
  response: {
    202: z.object({
      runId: z.string(),
      status: runStatus,
      pending: z.array(pendingView).describe('What the run still waits for.'),
      decisions: z.array(decisionView).optional().describe('What was decided about its calls so far.'),
      budget: budgetView.optional().describe('After a top-up: the account.'),
    }),
    ...errors,
  },
});

/** The API key is the person: with a name beside it one key could count as several people. */
function whoDecides(body: unknown, caller: string): { readonly decision: DecisionInput; readonly by?: string } {
  const hasName = body !== null && typeof body === 'object' && 'by' in body;
  if (caller !== 'local') {
    if (hasName) throw new RunError('validation', 'by: who decides is the API key; leave `by` out', byIssue);
    return { decision: body as DecisionInput, by: caller };
  }
  if (!hasName) return { decision: body as DecisionInput };
  const { by, ...decision } = body as DecisionInput & { readonly by: unknown };
  if (typeof by === 'string') return { decision, by };
  throw new RunError('validation', 'by: must be a text', byIssue);
}

const byIssue = { details: [{ path: 'by', message: 'must be a text, and only where there are no API keys' }] };

const approvalsRoute = route('read', {
  operationId: 'listApprovals',
  summary: 'List what waits for people',
  description:
    'Calls that need a grant, questions, calls whose outcome is unknown, and money, over all runs of the tenant. `id` is the `toolCallId` of a decision; for money it is the account. What one run waits for is never split, so a page may have more than `limit`, or fewer and still have a `cursor`; no cursor means the end.',
  querystring: z.object({
    agent: publicId.optional(),
    kind: approvalKind.optional(),
    order: z
      .enum(['newest', 'oldest'])
      .optional()
      .describe('Whose question comes first, that of the run which asked last or first. Default `newest`.'),
    cursor: z.string().max(256).optional().describe('From the previous page in the same order.'),
    limit: wholeNumberParam(1, 100).optional().describe('Default 50.'),
  }),
  response: {
    200: z.object({ approvals: z.array(approvalView), cursor: z.string().optional() }),
    ...errors,
  },
});

const cancelRoute = route('write', {
  operationId: 'cancelRun',
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
    ...errors,
  },
});

export function decisionRoutes(app: App): void {
  app.post('/v1/runs/:id/decisions', decideRoute, async ({ mill, caller, params, headers, body }, reply) => {
    const { decision, by } = whoDecides(body, caller);
    const idempotencyKey = headers['idempotency-key'];
    const { run, budget } = await mill.decide(params.id, decision, defined({ by, idempotencyKey }));
    const { runId, status, pending, decisions } = run;
    return await reply.code(202).send({ runId, status, pending, decisions, budget });
  });
  app.get('/v1/approvals', approvalsRoute, async ({ mill, query }) => {
    const { approvals, cursor } = await mill.approvals(query);
    return { approvals: [...approvals], cursor };
  });
  app.post('/v1/runs/:id/cancel', cancelRoute, async ({ mill, params, body }, reply) => {
    const { runId, status, cancelling } = await mill.cancel(params.id, body ?? {});
    const held = !cancelling && !isTerminalStatus(status);
    return await reply.code(202).send({ runId, status, cancelling, held: held ? true : undefined });
  });
}
