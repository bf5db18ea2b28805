import { z } from 'zod';
import { budgetScope, budgetSettings, budgetView } from '../../../shared/contract/money.ts';
import { topUpRequest } from '../../client/budgets.ts';
import type { App } from '../app.ts';
import { errors, route, topUpKey } from '../openapi.ts';
import { defined } from '../../../shared/base/collections.ts';
import { costReport, type CostGroup } from '../../../shared/contract/report/costs.ts';

const accountParams = z.object({
  scope: budgetScope.describe('Whose money it is.'),
  id: z.string().describe('Run id, batch id, or the name of the own tenant.'),
});
const answers = { 200: budgetView, ...errors };

const listRoute = route('read', {
  operationId: 'listBudgets',
  summary: 'List budgets',
  description:
    'The account of the own tenant first, then the batches that a budget was set for, the latest first, and other accounts that runs wait for: at most 500. Amounts are microcents (1e-8 USD).',
  response: { 200: z.object({ budgets: z.array(budgetView) }), ...errors },
});

const getRoute = route('read', {
  operationId: 'getBudget',
  summary: 'Read a budget',
  description:
    'Cap, what is spent, what is reserved for calls under way, and how many runs wait for more. An account that nothing was spent from yet has zeros. Amounts are microcents (1e-8 USD).',
  params: accountParams,
  response: answers,
});

const setRoute = route('approve', {
  operationId: 'setBudget',
  summary: 'Set the budget of a batch',
  description:
    'All runs that name this batch share it, also those that are under way. Setting it again replaces the cap; top-ups stay. Runs that wait for money go on by themselves when the new cap lets them.',
  params: z.object({ id: z.string().describe('Batch id') }),
  body: budgetSettings,
  response: answers,
});

const topUpRoute = route('approve', {
  operationId: 'topUpBudget',
  summary: 'Add money to a budget',
  description:
    'Raises the cap, that of a tenant for its present window. Runs that wait for this money go on by themselves within seconds. An account without a cap answers 400. The money of a tenant needs the scope `admin` as well.',
  params: accountParams,
  headers: topUpKey,
  body: topUpRequest,
  response: answers,
});

const costsRoute = route('read', {
  operationId: 'readCosts',
  summary: 'Read costs',
  description:
    'What the model calls of the own tenant cost, by day (UTC), agent and model, from counters that outlive the runs. Amounts are microcents (1e-8 USD).',
  querystring: z.object({
    from: z.string().optional().describe('First day, `YYYY-MM-DD` (UTC). Default: six days before `to`.'),
    to: z.string().optional().describe('Last day, included. Default: today. At most 400 days from `from`.'),
    by: z
      .string()
      .optional()
      .describe(
        'What to group by: any of `tenant`, `agent`, `model`, `day`, separated by commas. Default: `day,agent,model`.',
      ),
  }),
  response: { 200: costReport, ...errors },
});

export function moneyRoutes(app: App): void {
  app.get('/v1/budgets', listRoute, async ({ mill }) => ({ budgets: [...(await mill.budgets.list())] }));
  app.get(
    '/v1/budgets/:scope/:id',
    getRoute,
    async ({ mill, params }) => await mill.budgets.get(params.scope, params.id),
  );
  app.put(
    '/v1/budgets/batch/:id',
    setRoute,
    async ({ mill, params, body }) => await mill.budgets.set('batch', params.id, body),
  );
  app.post('/v1/budgets/:scope/:id/top-ups', topUpRoute, async ({ mill, params, headers, body }) => {
    const options = defined({ idempotencyKey: headers['idempotency-key'] });
    return await mill.budgets.topUp(params.scope, params.id, body, options);
  });
  app.get('/v1/costs', costsRoute, async ({ mill, query: { from, to, by } }) => {
    const groups = by?.split(',').map((name) => name.trim()) as CostGroup[] | undefined;
    return await mill.costs(defined({ from, to, by: groups }));
  });
}
