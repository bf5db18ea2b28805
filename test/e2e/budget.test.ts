import { expect, test } from 'vitest';
import { microcentsPerUsd, type RunRequestInput } from '../../src/producer/index.ts';
import { eventsOf } from '../support/check-run.ts';
import { call } from '../support/http.ts';
import { until } from '../support/redis.ts';
import { shareWorld } from '../support/world.ts';

const shared = shareWorld({ producer: true });

/** Cannot pay for the shortest answer of the model that the agents of these tests use. */
const tiny = 1e-6;
const two = [{ text: 'looking', calls: [{ name: 'note', args: { text: 'a' } }] }, { text: 'done' }];

async function suspended(
  agent: string,
  budget: NonNullable<RunRequestInput['budget']>,
  more: Partial<RunRequestInput> = {},
) {
  const { world } = shared;
  const run = await world.submit(agent, [{ text: 'done' }], { budget, ...more });
  const view = await until(`run ${run.runId} waits`, async () => {
    const seen = await world.mill.get(run.runId);
    return seen.status === 'suspended' ? seen : undefined;
  });
  return { run, view };
}

const decide = (runId: string, budget: unknown) =>
  call('POST', `${shared.world.url}/v1/runs/${runId}/decisions`, { budget });

test('a run whose cap cannot pay for one call fails before anything is sent', async () => {
  const { world } = shared;
  const run = await world.submit('plain', [{ text: 'never' }], { budget: { maxCostUsd: tiny } });
  const { view } = await world.ended(run);
  expect(view).toMatchObject({ status: 'failed', error: { code: 'budget_exceeded', retryable: false }, steps: 0 });
  expect(view.error?.message).toContain('cap $0.000001');
  expect(world.provider.callsOf(run.runId)).toEqual([]);
});

test.each([0, -1])('a cap of %d is none', async (maxCostMicrocents) => {
  const { world } = shared;
  const run = await world.submit('plain', [{ text: 'done' }], { budget: { maxCostMicrocents } });
  expect((await world.ended(run)).view.status).toBe('completed');
});

test('a run that may pass its cap goes on, and says so once', async () => {
  const { world } = shared;
  const run = await world.submit('hands', two, { budget: { maxCostUsd: tiny, onExceed: 'warn' } });
  const observed = await world.ended(run);
  expect(observed.view.status).toBe('completed');
  expect(eventsOf(observed, 'budget.warning')).toHaveLength(1);
});

test('a run that waits for money occupies no worker, and an approval lets its step pass the cap', async () => {
  const { world } = shared;
  const { run, view } = await suspended('plain', { maxCostUsd: tiny, onExceed: 'pause_for_approval' });
  expect(view.pending).toMatchObject([{ kind: 'budget', id: `run:${run.runId}` }]);
  expect(world.provider.callsOf(run.runId)).toEqual([]);
  const answers = await Promise.all(Array.from({ length: 20 }, () => decide(run.runId, 'approve')));
  expect(answers.filter(({ status }) => status < 300)).toHaveLength(1);
  const { events, view: end } = await world.ended(run);
  expect(end).toMatchObject({ status: 'completed', recoveries: 0 });
  expect(
    events.map(({ type }) => type).filter((type) => type.startsWith('run.') || type.startsWith('budget.')),
  ).toEqual([
    'run.queued',
    'run.started',
    'budget.paused',
    'run.suspended',
    'run.resumed',
    'run.started',
    'run.completed',
  ]);
});

test('an approval holds for one step: the next one waits again', async () => {
  const { world } = shared;
  const run = await world.submit('hands', two, { budget: { maxCostUsd: tiny, onExceed: 'pause_for_approval' } });
  for (const steps of [0, 1]) {
    await until('the run waits', async () => {
      const seen = await world.mill.get(run.runId);
      return seen.status === 'suspended' && seen.steps === steps;
    });
    await decide(run.runId, 'approve');
  }
  expect((await world.ended(run)).view).toMatchObject({ status: 'completed', steps: 2 });
  expect(world.provider.callsOf(run.runId)).toHaveLength(2);
});

test('a rejection ends the run', async () => {
  const { world } = shared;
  const { run } = await suspended('plain', { maxCostUsd: tiny, onExceed: 'pause_for_approval' });
  await decide(run.runId, 'reject');
  expect((await world.ended(run)).view).toMatchObject({ status: 'failed', error: { code: 'budget_exceeded' } });
  expect(world.provider.callsOf(run.runId)).toEqual([]);
});

test('a top-up of the account lets the run go on', async () => {
  const { world } = shared;
  const { run } = await suspended('plain', { maxCostUsd: tiny, onExceed: 'pause_for_approval' });
  expect((await decide(run.runId, { topUpUsd: 1 })).status).toBeLessThan(300);
  expect((await world.ended(run)).view.status).toBe('completed');
});

test('a run that waits for money can be cancelled', async () => {
  const { world } = shared;
  const { run } = await suspended('plain', { maxCostUsd: tiny, onExceed: 'pause_for_approval' });
  await run.cancel();
  expect((await world.ended(run)).view.status).toBe('cancelled');
  expect((await decide(run.runId, 'approve')).body.error.code).toBe('already_terminal');
});

test('runs of a batch share its cap, and go on after a top-up', async () => {
  const { world } = shared;
  const batch = `b-${world.fleet.prefix}`;
  const account = `${world.url}/v1/budgets/batch/${batch}`;
  const set = await call('PUT', account, { maxCostUsd: tiny, onExceed: 'pause_for_approval' });
  expect(set.status).toBe(200);
  const runs = await Promise.all(Array.from({ length: 5 }, () => world.submit('plain', [{ text: 'done' }], { batch })));
  await until('all wait', async () => (await call('GET', account)).body.waiting === 5);
  expect(runs.flatMap(({ runId }) => world.provider.callsOf(runId))).toEqual([]);
  expect((await call('POST', `${account}/top-ups`, { usd: 1 })).status).toBeLessThan(300);
  for (const run of runs) expect((await world.ended(run)).view.status).toBe('completed');
  const { body } = await call('GET', account);
  const spent = await Promise.all(runs.map(async ({ runId }) => (await world.mill.get(runId)).costMicrocents));
  expect(body).toMatchObject({
    capMicrocents: microcentsPerUsd + 100,
    reservedMicrocents: 0,
    waiting: 0,
    spentMicrocents: spent.reduce((sum, cost) => sum + cost, 0),
  });
});

test('a model without a price is refused where the budget says so', async () => {
  const { world } = shared;
  const overrides = { model: 'model-without-price' };
  const refused = await world.submit('plain', [{ text: 'x' }], {
    overrides,
    budget: { maxCostUsd: 1, unpriced: 'deny' },
  });
  expect((await world.ended(refused)).view).toMatchObject({ status: 'failed', error: { code: 'budget_unpriced' } });
  const allowed = await world.submit('plain', [{ text: 'x' }], { overrides, budget: { maxCostUsd: 1 } });
  const observed = await world.ended(allowed);
  expect(observed.view).toMatchObject({ status: 'completed', costMicrocents: 0 });
  expect(eventsOf(observed, 'cost.updated')).toMatchObject([{ priced: false }]);
});

test('a run of a thread that waits for money goes on waiting or fails as the cancel says, and its thread knows how it ended', async () => {
  const { world } = shared;
  const run = await world.submit('plain', [{ text: 'never' }], {
    thread: 'poor',
    budget: { maxCostUsd: tiny, onExceed: 'pause_for_approval' },
  });
  await until('the run waits', async () => (await run.get()).status === 'suspended');
  expect(await run.cancel({ onPendingApprovals: 'hold' })).toMatchObject({ status: 'suspended', cancelling: false });
  await run.cancel({ onPendingApprovals: 'fail' });
  const { view, events } = await world.ended(run);
  expect(view).toMatchObject({ status: 'failed', error: { code: 'run_aborted' } });
  expect(events.filter(({ type }) => type === 'agent.cancelling')).toMatchObject([
    { onPendingApprovals: 'hold' },
    { onPendingApprovals: 'fail' },
  ]);
  const next = await world.submit('plain', [{ text: 'next' }], { thread: 'poor' });
  expect((await next.result()).text).toBe('next');
});
