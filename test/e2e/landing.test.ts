import { expect, test } from 'vitest';
import { millrace } from '../producer/cli/support/cli-process.ts';
import { call } from '../support/http.ts';
import { until } from '../support/redis.ts';
import { makeWorld, shareWorld, type World } from '../support/world.ts';

const shared = shareWorld({ producer: true });
const limits = { maxSteps: 1, closingAnswer: true };
const looks = (...ids: readonly string[]) => ids.map((id) => ({ calls: [{ name: 'look', args: { id } }] }));

async function account(world: World, batch: string) {
  return await world.mill.budgets.get('batch', batch);
}

test('a run at its limit answers with what it has, marked as incomplete wherever it is read', async () => {
  const { world } = shared;
  const plan = [...looks('a', 'b'), { text: 'I saw a.' }];
  const run = await world.submit('hands', plan, { limits });
  const { view, events } = await world.ended(run);
  const result = { text: 'I saw a.', incomplete: { reason: 'maxSteps' } };
  expect(view).toMatchObject({ status: 'completed', result });
  expect(events.at(-1)).toMatchObject({ type: 'run.completed', result });
  expect((await call('GET', `${world.url}/v1/runs/${run.runId}`)).body).toMatchObject({ result });
  const env = { REDIS_URL: world.fleet.redisUrl, MILLRACE_PREFIX: world.fleet.prefix };
  expect((await millrace(['get', run.runId], { env })).stdout).toMatch(/incomplete +it reached its limit maxSteps/);
  const [last] = world.provider.callsOf(run.runId, 3);
  expect(last?.messages.at(-1)?.content).toContain('reached a limit');
});

test('without the option the same run fails with turn_limit, and keeps what it has', async () => {
  const { world } = shared;
  const run = await world.submit('hands', [...looks('a', 'b'), { text: 'never' }], { limits: { maxSteps: 1 } });
  const { view } = await world.ended(run);
  expect(view).toMatchObject({
    status: 'failed',
    error: { code: 'turn_limit' },
    unfinished: { results: [{ toolName: 'look' }], omitted: 0 },
  });
  expect(world.provider.callsOf(run.runId)).toHaveLength(2);
  const env = { REDIS_URL: world.fleet.redisUrl, MILLRACE_PREFIX: world.fleet.prefix };
  expect((await millrace(['get', run.runId], { env })).stdout).toContain('What its tools answered');
});

test('a budget keeps the money of the closing call, of the batch as well, and gives the rest back', async () => {
  const { world } = shared;
  world.provider.unplanned = (said) => (said.includes('reached a limit') ? { text: 'I saw some.' } : undefined);
  try {
    const batch = 'landing';
    const maxCostUsd = 0.003;
    await world.mill.budgets.set('batch', batch, { maxCostUsd, onExceed: 'fail' });
    const ids = Array.from({ length: 40 }, (_, index) => `l${index}`);
    const run = await world.submit('hands', looks(...ids), { batch, limits: { maxSteps: 40, closingAnswer: true } });
    const outcome = await run.result();
    expect(outcome).toMatchObject({ status: 'completed', result: { incomplete: { reason: 'budget' } } });
    expect(outcome.steps).toBeGreaterThan(2);
    const { spentMicrocents, reservedMicrocents, capMicrocents = 0 } = await account(world, batch);
    expect(spentMicrocents).toBe(outcome.costMicrocents);
    expect(spentMicrocents).toBeLessThanOrEqual(capMicrocents);
    expect(reservedMicrocents).toBe(0);
  } finally {
    world.provider.unplanned = () => undefined;
  }
});

test('a worker that dies in the closing call leaves one that is paid, and none is made again', async () => {
  const world = await makeWorld();
  const batch = 'killed';
  await world.mill.budgets.set('batch', batch, { maxCostUsd: 1, onExceed: 'fail' });
  const closing = { text: 'never seen whole', hold: { gate: 'closing', afterPieces: 1 } };
  const run = await world.submit('hands', [...looks('a', 'b'), closing], { batch, limits });
  await world.provider.gates.reached('closing');
  expect((await account(world, batch)).reservedMicrocents).toBeGreaterThan(0);
  world.worker.signal('SIGKILL');
  await world.worker.exited;
  await world.addWorker();
  const { view } = await world.ended(run);
  expect(view).toMatchObject({ status: 'failed', error: { code: 'turn_limit' }, unfinished: { omitted: 0 } });
  expect(world.provider.callsOf(run.runId).map(({ step }) => step)).toEqual([1, 2, 3]);
  const { spentMicrocents, reservedMicrocents, unconfirmedMicrocents } = await account(world, batch);
  expect(reservedMicrocents).toBe(0);
  expect(unconfirmedMicrocents).toBeGreaterThan(0);
  expect(spentMicrocents - unconfirmedMicrocents).toBe(view.costMicrocents);
  // Redriven, it goes on with the step after its limit.
  world.provider.gates.open('closing');
  await world.mill.redrive({ runId: run.runId });
  expect(await run.result()).toMatchObject({ status: 'completed', text: 'never seen whole' });
  expect((await account(world, batch)).reservedMicrocents).toBe(0);
});

test('a worker that dies before it leaves the money where it is held, and the next one makes the closing call', async () => {
  const world = await makeWorld();
  const batch = 'held';
  await world.mill.budgets.set('batch', batch, { maxCostUsd: 1, onExceed: 'fail' });
  const [first, second] = looks('a', 'b');
  const slow = { ...second, text: 'one two', hold: { gate: 'second', afterPieces: 1 } };
  const run = await world.submit('hands', [first ?? {}, slow, { text: 'I saw a.' }], { batch, limits });
  await world.provider.gates.reached('second');
  world.worker.signal('SIGKILL');
  await world.worker.exited;
  world.provider.gates.open('second');
  await world.addWorker();
  const { view } = await world.ended(run);
  expect(view).toMatchObject({ status: 'completed', result: { incomplete: { reason: 'maxSteps' } } });
  expect(world.provider.callsOf(run.runId, 3)).toHaveLength(1);
  const { spentMicrocents, reservedMicrocents, unconfirmedMicrocents } = await account(world, batch);
  expect(reservedMicrocents).toBe(0);
  expect(spentMicrocents - unconfirmedMicrocents).toBe(view.costMicrocents);
});

test('a run that is cancelled while it waits for people gives back the money of its closing call', async () => {
  const { world } = shared;
  const batch = 'cancelled';
  await world.mill.budgets.set('batch', batch, { maxCostUsd: 1, onExceed: 'fail' });
  const plan = [{ calls: [{ name: 'charge', args: { id: 'c' } }] }, { text: 'never' }];
  const run = await world.submit('gated', plan, { batch, limits });
  await until('the run waits', async () => (await run.get()).status === 'suspended');
  expect((await account(world, batch)).reservedMicrocents).toBeGreaterThan(0);
  await run.cancel({ reason: 'no need' });
  expect(await world.ended(run)).toMatchObject({ view: { status: 'cancelled' } });
  expect((await account(world, batch)).reservedMicrocents).toBe(0);
});
