import { expect, test } from 'vitest';
import { keepAlive } from '../support/platform.ts';
import { checkPoisonAmong, poisonPlan } from '../support/poisoned.ts';
import { makeWorld } from '../support/world.ts';

test('one run whose once tool ends its process among two hundred on three workers is quarantined alone', async () => {
  const world = await makeWorld({ workers: 3, env: { WORKER_CONCURRENCY: '50' } });
  await checkPoisonAmong(world, 200);
});

test('two runs whose calls end their process on one worker are quarantined, each for its own deaths', async () => {
  const world = await makeWorld();
  keepAlive(world);
  const neighbours = await Promise.all(
    Array.from({ length: 6 }, (_, i) =>
      world.submit('hands', [
        { calls: [{ name: 'put', args: { id: `n${i}`, gate: 'neighbours' } }] },
        { text: 'Unharmed.' },
      ]),
    ),
  );
  const poisons = await Promise.all([world.submit('hands', poisonPlan), world.submit('hands', poisonPlan)]);
  const failed = await Promise.all(poisons.map((poison) => world.ended(poison)));
  world.fleet.openGate('neighbours');
  expect(failed.map(({ view }) => view.error?.code)).toEqual(['worker_lost', 'worker_lost']);
  for (const neighbour of neighbours) expect((await world.ended(neighbour)).view.status).toBe('completed');
  const deaths = world.fleet.executions.filter(({ tool }) => tool === 'detonate').length;
  expect(deaths, 'three each in the common queue and two in quarantine').toBeLessThanOrEqual(10);
  expect((await world.mill.diagnose()).counters, 'no other run was in quarantine').toMatchObject({ quarantined: 2 });
});

test('a run that dies outside of calls goes to quarantine alone, while its neighbours answer and call', async () => {
  const world = await makeWorld();
  const platform = keepAlive(world);
  const doomed = await world.mill.enqueue({ agent: 'doomed', input: 'Say something.' });
  const neighbours = await Promise.all(
    Array.from({ length: 8 }, (_, i) =>
      world.submit('hands', [
        { text: 'I think about it. ', paceMs: 300, calls: [{ name: 'look', args: { id: `n${i}` } }] },
        { text: 'I think once more. ', paceMs: 300 },
      ]),
    ),
  );
  const { view } = await world.ended(doomed);
  expect(view).toMatchObject({ status: 'failed', error: { code: 'worker_lost' } });
  for (const neighbour of neighbours) expect((await world.ended(neighbour)).view.status).toBe('completed');
  expect(platform.restarts, 'workers that it took down').toBeLessThanOrEqual(4);
  expect((await world.mill.diagnose()).counters, 'no other run was in quarantine').toMatchObject({ quarantined: 1 });
});

test('a run whose tool leaves its process no heap goes to quarantine after three workers, and no neighbour does', async () => {
  const world = await makeWorld({ env: { NODE_OPTIONS: '--max-old-space-size=128' } });
  keepAlive(world);
  const calls = [{ name: 'put', args: { id: 'n', gate: 'neighbours' } }];
  const hold = { gate: 'neighbours', afterPieces: 2 };
  const [inCall, inAnswer] = await Promise.all([
    world.submit('hands', [{ calls }, { text: 'Unharmed.' }]),
    world.submit('plain', [{ text: 'I say this and wait. ', hold }]),
  ]);
  await world.toolWorks(inCall);
  await world.provider.gates.reached('neighbours');
  const plan = [{ calls: [{ name: 'hoard', args: { id: 'x' } }] }, { text: 'unreachable' }];
  const { view } = await world.ended(await world.submit('hands', plan));
  expect(view).toMatchObject({ status: 'failed', error: { code: 'worker_lost', retryable: false } });
  const workers = world.workers.slice(0, 3);
  for (const worker of workers) {
    expect((await worker.exited).signal).toBe('SIGABRT');
    expect(worker.output).toContain('JavaScript heap out of memory');
  }
  const deaths = world.fleet.executions.filter(({ tool }) => tool === 'hoard').map(({ pid }) => pid);
  expect(deaths.slice(0, 3)).toEqual(workers.map(({ pid }) => pid));
  expect(deaths, 'two more died of it in quarantine').toHaveLength(5);
  expect(world.workers.at(3)?.isAlive, 'the common workers live on').toBe(true);
  world.fleet.openGate('neighbours');
  world.provider.gates.open('neighbours');
  for (const neighbour of [inCall, inAnswer])
    expect((await world.ended(neighbour)).view).toMatchObject({ status: 'completed' });
  expect((await world.mill.diagnose()).counters, 'no neighbour was in quarantine').toMatchObject({ quarantined: 1 });
});
