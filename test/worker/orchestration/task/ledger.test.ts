import { expect, test } from 'vitest';
import type { EventBody } from '../../../../src/shared/contract/event.ts';
import { ledgerRow } from '../../../../src/shared/contract/orchestration/task.ts';
import { createAgentWith } from '../../../../src/worker/local/create-agent.ts';
import { scriptedModel } from '../../../../src/testing/scripted-model.ts';
import { always } from '../../../../src/testing/scripts.ts';
import { defineAgent } from '../../../../src/worker/agents/define-agent.ts';
import { createInMemoryLedgerRows, RunLedger } from '../../../../src/worker/orchestration/task/ledger.ts';
import { runAgentTask } from '../../../../src/worker/orchestration/task/run-task.ts';
import { counting, ended, hostWorld, replaying, type Add } from './task-world.ts';

const task = { id: 'count' };

function cost(costMicrocents: number): Extract<EventBody, { type: 'cost.updated' }> {
  return {
    type: 'cost.updated',
    model: 'm',
    inputTokens: 10,
    cachedTokens: 5,
    outputTokens: 3,
    costMicrocents,
    cumulativeCostMicrocents: costMicrocents,
    attemptNumber: 1,
    priced: true,
    usageReported: true,
  };
}

/** What the events of a task say that it cost. */
function emittedCost(events: readonly EventBody[]): number {
  return events.reduce((sum, event) => {
    if (event.type === 'cost.updated') return sum + event.costMicrocents;
    if (event.type === 'task.act') return sum + ((event.outcome as { costMicrocents?: number }).costMicrocents ?? 0);
    return sum;
  }, 0);
}

test('the row of a task is the sum of what its events cost, wherever it was spent', async () => {
  const rows = createInMemoryLedgerRows();
  const world = hostWorld();
  const { adapter } = counting({
    validate: ({ state, charge }) => {
      charge(cost(7));
      return [{ id: 'three', passed: state.count >= 3 }];
    },
    decide: ({ state, charge }) => {
      charge(cost(100));
      charge({ type: 'agent.start' });
      charge(cost(1));
      return state.count < 3 ? { type: 'act', action: { add: 1 } } : { type: 'stop', reason: 'done' };
    },
    getActionCostUsd: ({ action }) => action.add * 0.000_01,
  });
  const result = ended(await runAgentTask(adapter, { task, host: world.host, ledger: { rows } }));
  const [row] = rows.all();
  expect(ledgerRow.parse(row)).toMatchObject({ id: 'count', taskId: 'count', status: 'completed', llmCalls: 12 });
  expect(row).toMatchObject({ tokensIn: 12 * 15, tokensOut: 12 * 3, costMicrocents: 4 * 7 + 4 * 101 + 3 * 1_000 });
  expect(emittedCost(world.events)).toBe(row?.costMicrocents);
  expect(result).toMatchObject({ costMicrocents: row?.costMicrocents, spentCostUsd: 0.00003432 });
  const costs = world.events.filter((event) => event.type === 'cost.updated');
  expect(costs.map(({ cumulativeCostMicrocents }) => cumulativeCostMicrocents).slice(0, 4)).toEqual([
    7, 107, 108, 1_115,
  ]);
});

test('a task that is repeated costs what it cost, and its row is kept once', async () => {
  const rows = createInMemoryLedgerRows();
  const journal = new Map();
  const paying = () =>
    counting({
      act: ({ charge }) => {
        charge(cost(50));
        throw new Error('paid for nothing');
      },
    }).adapter;
  const budget = { maxSteps: 2 };
  const first = await runAgentTask(paying(), { task, budget, host: replaying(journal).host, ledger: { rows } });
  const again = await runAgentTask(paying(), { task, budget, host: replaying(journal).host, ledger: { rows } });
  expect(again).toEqual(first);
  expect(rows.all()).toMatchObject([{ status: 'failed', costMicrocents: 100, llmCalls: 2 }]);
});

test.each([
  [{ maxCostMicrocents: 250 }, 3],
  [{ maxCostUsd: 0.000_002_5 }, 3],
  [{ maxCostMicrocents: 0 }, 8],
  [{ maxCostMicrocents: -1 }, 8],
])('the budget %j ends a task of 100 microcents a step after %i steps', async (budget, steps) => {
  const left: (number | undefined)[] = [];
  const { adapter } = counting({
    decide: ({ remainingMicrocents }) => {
      left.push(remainingMicrocents);
      return { type: 'act', action: { add: 1 } };
    },
    act: ({ charge }) => charge(cost(100)),
  });
  const result = ended(await runAgentTask(adapter, { task, budget }));
  expect(result).toMatchObject({ stoppedBy: 'budget', status: 'failed', costMicrocents: steps * 100 });
  expect(result.steps).toHaveLength(steps);
  expect(left.slice(0, 3)).toEqual(steps === 3 ? [250, 150, 50] : [undefined, undefined, undefined]);
});

test('a decision that has spent the budget is not carried out any more', async () => {
  const { adapter, calls } = counting({
    decide: ({ charge }) => {
      charge(cost(100));
      return { type: 'act', action: { add: 1 } };
    },
  });
  expect(ended(await runAgentTask(adapter, { task, budget: { maxCostMicrocents: 100 } })).stoppedBy).toBe('budget');
  expect(calls).not.toContain('act');
});

test('a cost that comes after its call has answered does not count, and one that cannot be read fails the call', async () => {
  let late: ((event: EventBody) => void) | undefined;
  const { adapter } = counting({
    observe: ({ charge }) => {
      late = charge;
      return { count: 3 };
    },
    decide: () => {
      late?.(cost(1_000));
      return { type: 'stop', reason: 'done', pass: true };
    },
  });
  expect(ended(await runAgentTask(adapter, { task })).costMicrocents).toBe(0);
  const garbled = counting({ act: ({ charge }) => charge({ ...cost(1), costMicrocents: 0.5 }) });
  const result = ended(await runAgentTask(garbled.adapter, { task, budget: { maxSteps: 1 } }));
  expect(result.steps[0]?.outcome).toMatchObject({ ok: false, error: { code: 'validation' } });
});

test('more costs in one call than are listed are still counted', async () => {
  const world = hostWorld();
  const { adapter } = counting({
    decide: ({ charge }) => {
      for (let n = 0; n < 300; n++) charge(cost(10));
      return { type: 'stop', reason: 'done' };
    },
  });
  const result = ended(await runAgentTask(adapter, { task, host: world.host }));
  expect(result.costMicrocents).toBe(3_000);
  expect(world.events.filter(({ type }) => type === 'cost.updated')).toHaveLength(256);
});

test.each<[string, object, string]>([
  ['blocked', { task: { ...task, requirements: [{ id: 'a', description: 'A' }] } }, 'completed'],
  ['aborted', { task, signal: AbortSignal.abort() }, 'cancelled'],
  ['failed', { task, budget: { maxSteps: 1 } }, 'failed'],
])('a task that ends as %s is a row that is %s', async (status, options, row) => {
  const rows = createInMemoryLedgerRows();
  const outcome = await runAgentTask(counting().adapter, {
    ...(options as { task: { id: string } }),
    ledger: { rows },
  });
  expect(outcome.status).toBe(status);
  expect(await rows.get('count')).toMatchObject({ status: row });
});

test('a store of rows that fails is reported to the caller, after the end of the task was emitted', async () => {
  const world = hostWorld();
  const rows = { get: async () => undefined, put: async () => Promise.reject(new Error('disk full')) };
  const run = runAgentTask(counting().adapter, { task, host: world.host, ledger: { rows } });
  await expect(run).rejects.toThrow('disk full');
  expect(world.types().at(-1)).toBe('task.end');
});

test('a ledger ends once: the same end again changes nothing, another one is refused', async () => {
  const clock = { nowMs: 1_000 };
  const ledger = new RunLedger({ id: 'run-1', now: () => clock.nowMs });
  const rows = createInMemoryLedgerRows();
  ledger.observe(cost(40));
  await expect(ledger.save(rows)).rejects.toMatchObject({ code: 'validation' });
  clock.nowMs += 500;
  ledger.complete('completed');
  clock.nowMs += 500;
  ledger.complete('completed');
  ledger.observe(cost(40));
  expect(ledger.row()).toMatchObject({ status: 'completed', wallMs: 500, costMicrocents: 40, llmCalls: 1 });
  expect(() => ledger.complete('failed')).toThrow(expect.objectContaining({ code: 'already_terminal' }));
  await ledger.save(rows);
  await ledger.save(rows);
  expect(rows.all()).toEqual([ledger.row()]);
  const other = new RunLedger({ id: 'run-1' });
  other.complete('failed', { error: 'internal' });
  await expect(other.save(rows)).rejects.toMatchObject({ code: 'already_terminal' });
  expect(rows.all()).toHaveLength(1);
});

test('the ledger counts a run of an agent to the microcent', async () => {
  const provider = scriptedModel(always('It was sent.'));
  const agent = createAgentWith(defineAgent({ id: 'support', model: 'gpt-5.2-mini' }), { provider, env: {} });
  const ledger = new RunLedger({ id: 'run-1' });
  const stream = agent.stream('Where is order 7?');
  for await (const event of stream) ledger.observe(event);
  const { costMicrocents, usage } = await stream.result;
  expect(ledger.row()).toMatchObject({ costMicrocents, tokensIn: usage?.input, tokensOut: usage?.output, llmCalls: 1 });
  expect(costMicrocents).toBeGreaterThan(0);
  const { adapter } = counting({
    act: async ({ charge }) => {
      for await (const event of agent.stream('Where is order 7?')) charge(event);
    },
    decide: ({ history }) =>
      history.length === 0 ? { type: 'act', action: {} as Add } : { type: 'stop', reason: 'done', pass: true },
  });
  expect(ended(await runAgentTask(adapter, { task })).costMicrocents).toBe(costMicrocents);
});
