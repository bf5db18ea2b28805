import { expect, test } from 'vitest';
import { windowOf } from '../../../src/shared/contract/money.ts';
import { viewOf, type RunRequestInput } from '../../../src/shared/contract/run.ts';
import { tenantsOf } from '../../../src/shared/contract/tenants.ts';
import { createScriptedProvider } from '../../../src/worker/llm/backends/scripted.ts';
import { defineAgent } from '../../../src/worker/agents/define-agent.ts';
import { defineTaskAdapter, type TaskAdapter, type TaskContext } from '../../../src/worker/agents/adapter.ts';
import { createInMemoryLedgerRows } from '../../../src/worker/orchestration/task/ledger.ts';
import { runAgentTask } from '../../../src/worker/orchestration/task/run-task.ts';
import { redisLedgerWorld } from '../../contract/ledger-redis-world.ts';
import { batch } from '../../contract/ledger-world.ts';
import { makeJobs } from './job-world.ts';

/** Charges for its decisions the costs in the input of its task, one after the other, and acts until there are no more. */
interface Bill {
  readonly costs: readonly number[];
  readonly priced?: boolean;
}

function pay({ charge, task }: TaskContext, costMicrocents: number): void {
  if (costMicrocents === 0) return;
  const { priced = true } = task.input as unknown as Bill;
  const tokens = { inputTokens: 3, outputTokens: 2, cachedTokens: 1, usageReported: true };
  charge({ type: 'cost.updated', model: 'own', ...tokens, costMicrocents, cumulativeCostMicrocents: 0, priced });
}

const shop = defineTaskAdapter({
  id: 'shop',
  observe: ({ stepNumber }) => ({ stepNumber }),
  validate: () => [{ id: 'well', passed: true }],
  decide(context) {
    const { costs } = context.task.input as unknown as Bill;
    const { length } = context.history;
    pay(context, costs[length] ?? 0);
    return length < costs.length ? { type: 'act', action: { length } } : { type: 'stop', reason: 'all is bought' };
  },
  act: ({ action }) => action,
  getActionCostUsd: ({ action }) => (action.length === 1 ? 0.000_000_1 : undefined),
});

/** Pays for its first action, which ends only when the test lets it. */
const lasting = { open: false, acting: Promise.withResolvers<void>() };
const slow = defineTaskAdapter({
  id: 'slow',
  observe: ({ stepNumber }) => ({ stepNumber }),
  validate: () => [{ id: 'well', passed: true }],
  decide: ({ history }) => (history.length < 1 ? { type: 'act', action: null } : { type: 'stop', reason: 'done' }),
  async act(context) {
    pay(context, 30);
    lasting.acting.resolve();
    if (!lasting.open)
      await new Promise((_, reject) => context.signal.addEventListener('abort', () => reject(context.signal.reason)));
  },
  mostUsd: { act: 0.000_000_9 },
});

const idle = defineAgent({ id: 'idle', model: 'gpt-5.2-mini' });
const tenants = tenantsOf({});

async function begin(
  request: Partial<RunRequestInput>,
  adapter: 'shop' | 'slow' = 'shop',
  bill: Bill = { costs: [70, 70, 70] },
) {
  const functions = {
    judges: new Map(),
    merges: new Map(),
    adapters: new Map<string, TaskAdapter>([
      ['shop', shop],
      ['slow', slow],
    ]),
  };
  const jobs = makeJobs(
    idle,
    createScriptedProvider(() => ({})),
    0,
    { functions, tenants },
  );
  const money = await redisLedgerWorld(tenants, undefined, 'default');
  Object.assign(jobs.ports, { ledger: money.ledger });
  const taskRun = { adapter, input: bill, limits: { maxSteps: 9 } };
  const runId = jobs.submit({ input: '', ...request, taskRun });
  const costs = async () => {
    const rows = await money.costs(windowOf('day', money.clock.now()));
    return rows.sort((a, b) => b.costMicrocents - a.costMicrocents);
  };
  return { jobs, runId, money, costs };
}

const b1 = batch('b1');

test('what a task pays is counted by the model it was paid for, in its batch and in the costs of the day', async () => {
  const { jobs, runId, money, costs } = await begin({ batch: 'b1' });
  await jobs.deliver(runId);
  expect(await jobs.load(runId)).toMatchObject({ status: 'completed', costMicrocents: 220 });
  expect(await money.view(b1)).toMatchObject({
    spentMicrocents: 220,
    unconfirmedMicrocents: 0,
    reservedMicrocents: 0,
  });
  expect(await costs()).toMatchObject([
    { provider: 'task', model: 'own', attempts: 3, input: 9, output: 6, cached: 3, costMicrocents: 210 },
    { provider: 'task', model: 'shop', attempts: 1, costMicrocents: 10 },
  ]);
});

test('without any cap it is counted all the same, and what costs nothing leaves nothing', async () => {
  const paying = await begin({});
  await paying.jobs.deliver(paying.runId);
  expect(await paying.costs()).toMatchObject([{ costMicrocents: 210 }, { costMicrocents: 10 }]);
  const free = await begin({ batch: 'b1' }, 'shop', { costs: [0] });
  await free.jobs.deliver(free.runId);
  expect(await free.costs()).toEqual([]);
  expect(await free.money.view(b1)).toMatchObject({ spentMicrocents: 0, reservedMicrocents: 0 });
});

test('a batch without money for what the last call of its kind cost refuses the next one before it is made', async () => {
  const { jobs, runId, money } = await begin({ batch: 'b1' });
  await money.setBudget('b1', 139);
  await jobs.deliver(runId);
  expect(await jobs.load(runId)).toMatchObject({
    status: 'failed',
    costMicrocents: 70,
    error: { code: 'budget_exceeded', details: { scope: 'batch', id: 'b1' } },
  });
  expect(await money.view(b1)).toMatchObject({ spentMicrocents: 70, reservedMicrocents: 0 });
  const enough = await begin({ batch: 'b1' });
  // Also for the last decision, which costs nothing after all.
  await enough.money.setBudget('b1', 290);
  await enough.jobs.deliver(enough.runId);
  expect(await enough.jobs.load(enough.runId)).toMatchObject({ status: 'completed', costMicrocents: 220 });
});

test('what is charged beyond the cap is counted, and ends the task with its next call', async () => {
  const { jobs, runId, money } = await begin({ batch: 'b1' }, 'shop', { costs: [500, 1] });
  await money.setBudget('b1', 100);
  await jobs.deliver(runId);
  expect(await jobs.load(runId)).toMatchObject({ status: 'failed', costMicrocents: 500 });
  expect(await money.view(b1)).toMatchObject({ spentMicrocents: 500, reservedMicrocents: 0 });
});

test('a run that may ask for money parks, goes on for one call when that is approved, and fails when not', async () => {
  const budget = { maxCostMicrocents: 100, onExceed: 'pause_for_approval' } as const;
  const { jobs, runId } = await begin({ budget });
  await jobs.deliver(runId);
  expect(await jobs.load(runId)).toMatchObject({
    status: 'suspended',
    pending: [{ kind: 'budget', id: `run:${runId}` }],
  });
  expect(jobs.eventsOf(runId, 'budget.paused')).toMatchObject([
    { scope: 'run', spentMicrocents: 70, limitMicrocents: 100 },
  ]);
  jobs.ports.decide(runId, { budget: 'approve' });
  await jobs.deliver(runId);
  expect(await jobs.load(runId), 'the next one asks again').toMatchObject({ status: 'suspended', costMicrocents: 140 });
  jobs.ports.decide(runId, { budget: 'reject' });
  await jobs.deliver(runId);
  expect(await jobs.load(runId)).toMatchObject({
    status: 'failed',
    error: { code: 'budget_exceeded' },
    costMicrocents: 140,
  });
  expect(jobs.eventsOf(runId, 'task.decide')).toHaveLength(2);
});

test('a budget that only warns lets everything pass, and warns once', async () => {
  const { jobs, runId } = await begin({ budget: { maxCostMicrocents: 100, onExceed: 'warn' } });
  await jobs.deliver(runId);
  expect(await jobs.load(runId)).toMatchObject({ status: 'completed', costMicrocents: 220 });
  expect(jobs.eventsOf(runId, 'budget.warning')).toHaveLength(1);
});

test('where unpriced calls are denied, one is counted and the next call refused', async () => {
  const budget = { maxCostMicrocents: 100, unpriced: 'deny' } as const;
  const { jobs, runId, costs } = await begin({ budget }, 'shop', { costs: [1, 1], priced: false });
  await jobs.deliver(runId);
  expect(await jobs.load(runId)).toMatchObject({ status: 'failed', error: { code: 'budget_unpriced' } });
  expect(await costs()).toMatchObject([{ attempts: 1, unpricedAttempts: 1 }]);
});

test('what a call may cost by its adapter is reserved, and no call is made without that', async () => {
  const { jobs, runId, money } = await begin({ batch: 'b1' }, 'slow');
  await money.setBudget('b1', 89);
  await jobs.deliver(runId);
  expect(await jobs.load(runId)).toMatchObject({
    status: 'failed',
    error: { code: 'budget_exceeded' },
    costMicrocents: 0,
  });
});

test('a call that is cut off has cost what it charged by then, and may have cost what was reserved', async () => {
  Object.assign(lasting, { open: false, acting: Promise.withResolvers<void>() });
  const { jobs, runId, money } = await begin({ batch: 'b1' }, 'slow');
  const draining = new AbortController();
  const delivered = jobs.deliver(runId, 1, draining.signal);
  await lasting.acting.promise;
  expect(await money.view(b1)).toMatchObject({ spentMicrocents: 0, reservedMicrocents: 90 });
  draining.abort(new Error('the worker is shutting down'));
  expect(await delivered).toEqual({ kind: 'handed_over' });
  expect(await money.view(b1)).toMatchObject({
    spentMicrocents: 90,
    unconfirmedMicrocents: 60,
    reservedMicrocents: 0,
  });
  expect(await jobs.load(runId)).toMatchObject({ costMicrocents: 30 });
  lasting.open = true;
  await jobs.deliver(runId, 2);
  const record = await jobs.load(runId);
  expect(record).toMatchObject({ status: 'completed', costMicrocents: 60, result: { output: { costMicrocents: 60 } } });
  const costs = jobs.eventsOf(runId, 'cost.updated');
  expect(costs.map(({ costMicrocents, cumulativeCostMicrocents: sum }) => [costMicrocents, sum])).toEqual([
    [30, 30],
    [30, 60],
  ]);
  expect(record && viewOf(record).ledger).toMatchObject({ status: 'completed', costMicrocents: 60, llmCalls: 2 });
});

test.each([
  ['passes', { costs: [70, 20] }, {}],
  ['does not pass', { costs: [70, 20] }, { maxCostMicrocents: 80 }],
])('the run of a task that %s has the ledger row that it has in a process', async (_, bill: Bill, limits) => {
  const { jobs, runId } = await begin({}, 'shop', bill);
  Object.assign((await jobs.load(runId))?.request.taskRun?.limits ?? {}, limits);
  await jobs.deliver(runId);
  const record = await jobs.load(runId);
  const rows = createInMemoryLedgerRows();
  const task = { id: runId, input: bill as unknown as null };
  await runAgentTask(shop, { task, budget: { maxSteps: 9, ...limits }, ledger: { rows } });
  const row = await rows.get(runId);
  expect(row).toMatchObject({ taskId: runId, llmCalls: 2 });
  const shown = record && viewOf(record).ledger;
  const { startedAt, completedAt, wallMs } = shown ?? {};
  expect(shown).toEqual({ ...row, startedAt, completedAt, wallMs });
  expect(shown).toMatchObject({ startedAt: record?.startedAt, completedAt: record?.endedAt });
  const costs = jobs.ports.events(runId).reduce((sum, event) => sum + costIn(event), 0);
  expect(shown?.costMicrocents).toBe(costs);
});

function costIn(event: { type: string; costMicrocents?: unknown; outcome?: unknown }): number {
  if (event.type === 'cost.updated') return Number(event.costMicrocents);
  return event.type === 'task.act' ? ((event.outcome as { costMicrocents?: number }).costMicrocents ?? 0) : 0;
}

test('a task that was cancelled has a row of what it cost until then', async () => {
  Object.assign(lasting, { open: false, acting: Promise.withResolvers<void>() });
  const { jobs, runId } = await begin({}, 'slow');
  const delivered = jobs.deliver(runId);
  await lasting.acting.promise;
  jobs.ports.cancel(runId, { drain: false, onPendingApprovals: 'deny' });
  await delivered;
  const record = await jobs.load(runId);
  expect(record && viewOf(record).ledger).toMatchObject({ status: 'cancelled', costMicrocents: 30, llmCalls: 1 });
  expect(jobs.eventsOf(runId, 'cost.updated')).toMatchObject([{ costMicrocents: 30 }]);
});
