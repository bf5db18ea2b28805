import { expect, test } from 'vitest';
import type { RunHandle } from '../../src/producer/index.ts';
import { eventsOf } from '../support/check-run.ts';
import { call } from '../support/http.ts';
import { until } from '../support/redis.ts';
import { shareWorld } from '../support/world.ts';

const shared = shareWorld({ producer: true });

/** A run whose first model call already passes its cap, once it waits. */
async function pausedRun(): Promise<RunHandle> {
  const { world } = shared;
  const budget = { maxCostMicrocents: 1, onExceed: 'pause_for_approval' } as const;
  const run = await world.submit('plain', [{ text: 'It was worth it.' }], { budget });
  await until('the run waits', async () => (await run.get()).status === 'suspended');
  await until(
    'it waits in the queue of its budget',
    async () => (await world.mill.budgets.get('run', run.runId)).waiting === 1,
  );
  return run;
}

test('a run that waits for money occupies no worker, says what for, and has asked no model', async () => {
  const run = await pausedRun();
  const { pending } = await run.get();
  expect(pending).toMatchObject([{ kind: 'budget', id: `run:${run.runId}` }]);
  expect(shared.world.provider.callsOf(run.runId)).toHaveLength(0);
  await run.cancel();
});

test('an approved run goes over its cap and completes, however often it is approved', async () => {
  const { world } = shared;
  const run = await pausedRun();
  const decide = () => call('POST', `${world.url}/v1/runs/${run.runId}/decisions`, { budget: 'approve' });
  const answers = await Promise.all(Array.from({ length: 20 }, decide));
  expect(answers.filter(({ status }) => status === 202)).toHaveLength(1);
  const observed = await world.ended(run);
  expect(observed.view.status).toBe('completed');
  expect(eventsOf(observed, 'run.resumed')).toHaveLength(1);
  expect(world.provider.callsOf(run.runId)).toHaveLength(1);
});

test('a rejected run ends with budget_exceeded and never asked a model', async () => {
  const { world } = shared;
  const run = await pausedRun();
  await run.reject('not worth it');
  const { view } = await world.ended(run);
  expect([view.status, view.error?.code]).toEqual(['failed', 'budget_exceeded']);
  expect(world.provider.callsOf(run.runId)).toHaveLength(0);
});

test('a run goes on by itself after a top-up that is enough', async () => {
  const { world } = shared;
  const run = await pausedRun();
  const path = `${world.url}/v1/budgets/run/${run.runId}/top-ups`;
  await call('POST', path, { microcents: 1 });
  expect((await run.get()).status).toBe('suspended');
  const { body } = await call('POST', path, { usd: 1 });
  expect(body).toMatchObject({ capMicrocents: 100_000_002 });
  expect((await world.ended(run)).view.status).toBe('completed');
  const spent = await call('GET', `${world.url}/v1/budgets/run/${run.runId}`);
  const { costMicrocents } = await run.get();
  expect(spent.body).toMatchObject({ spentMicrocents: costMicrocents, reservedMicrocents: 0, waiting: 0 });
});

test('a run that waits for money can be cancelled', async () => {
  const { world } = shared;
  const run = await pausedRun();
  await run.cancel();
  expect((await world.ended(run)).view.status).toBe('cancelled');
});

test('a batch with a cap stops when it is spent, and finishes after a top-up', async () => {
  const { world } = shared;
  const { mill } = world;
  await mill.budgets.set('batch', 'small', { maxCostMicrocents: 1, onExceed: 'pause_for_approval' });
  const runs = await Promise.all(
    Array.from({ length: 5 }, (_, index) => world.submit('plain', [{ text: `answer ${index}` }], { batch: 'small' })),
  );
  await until(
    'all runs wait in the queue of the budget',
    async () => (await mill.budgets.get('batch', 'small')).waiting === runs.length,
  );
  await mill.budgets.topUp('batch', 'small', { usd: 1 });
  for (const run of runs) expect((await world.ended(run)).view.status).toBe('completed');
  const costs = await mill.costs({ by: ['agent'] });
  const spent = await mill.budgets.get('batch', 'small');
  expect(spent).toMatchObject({ reservedMicrocents: 0, waiting: 0 });
  expect(costs.totals.costMicrocents).toBeGreaterThanOrEqual(spent.spentMicrocents);
});
