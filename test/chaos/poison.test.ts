import { expect, test } from 'vitest';
import { eventsOf } from '../support/check-run.ts';
import { planInput } from '../support/plan.ts';
import { keepAlive } from '../support/platform.ts';
import { until } from '../support/redis.ts';
import { makeWorld } from '../support/world.ts';

test('a run that ends every process it touches leaves neighbours and parent unharmed, and fails in quarantine', async () => {
  const world = await makeWorld();
  const platform = keepAlive(world);
  const neighbours = await Promise.all(
    Array.from({ length: 4 }, (_, i) =>
      world.submit('hands', [
        { calls: [{ name: 'put', args: { id: `n${i}`, gate: 'neighbours' } }] },
        { text: 'Unharmed.' },
      ]),
    ),
  );
  await until('the neighbours work', () => world.fleet.executions.length === neighbours.length);
  const poisoned = planInput(
    { calls: [{ name: 'poison', args: { id: 'x', gate: 'asked' } }] },
    { text: 'unreachable' },
  );
  const parent = await world.submit('asker', [
    { calls: [{ name: 'ask_agent', args: { agent: 'hands', message: poisoned } }] },
    { text: 'It could not be done.' },
  ]);
  // A worker that dies while it still has the parent loses that, too.
  await until('the parent waits', async () => (await world.mill.get(parent.runId)).status === 'suspended');
  world.fleet.openGate('asked');
  const deaths = () => world.fleet.executions.filter(({ tool }) => tool === 'poison').length;
  await until('three workers have died of it', () => deaths() >= 3, 60_000);
  world.fleet.openGate('neighbours');
  for (const neighbour of neighbours) {
    expect((await world.ended(neighbour)).view).toMatchObject({ status: 'completed', result: { text: 'Unharmed.' } });
  }
  const asked = await world.ended(parent);
  expect(asked.view).toMatchObject({ status: 'completed', result: { text: 'It could not be done.' }, recoveries: 0 });
  expect(eventsOf(asked, 'tool.execute.error'), 'it gets the failure').toMatchObject([{ toolName: 'ask_agent' }]);
  const [poison] = (await world.mill.list({ parent: parent.runId })).runs;
  expect(poison).toMatchObject({ status: 'failed', error: { code: 'worker_lost', retryable: false } });
  // Three in the common queue, two in quarantine, and the common workers live on.
  expect(deaths()).toBe(5);
  expect(platform.restarts).toBe(3);
  expect((await world.mill.diagnose()).counters, 'no neighbour was in quarantine').toMatchObject({ quarantined: 1 });
});

test('runs in calls whose workers are killed twice in a row stay in their queue', async () => {
  const world = await makeWorld();
  const runs = await Promise.all(
    Array.from({ length: 20 }, (_, i) =>
      world.submit('hands', [{ calls: [{ name: 'put', args: { id: `p${i}`, gate: 'calm' } }] }, { text: 'Done.' }]),
    ),
  );
  await until('all calls are under way', () => world.fleet.executions.length === runs.length);
  await world.worker.kill();
  const next = await world.addWorker();
  await until('a suspect is watched', () => world.fleet.executions.length > runs.length);
  await next.kill();
  await world.addWorker();
  world.fleet.openGate('calm');
  for (const run of runs) expect((await world.ended(run)).view).toMatchObject({ status: 'completed' });
  expect((await world.mill.diagnose()).counters).not.toHaveProperty('quarantined');
});
