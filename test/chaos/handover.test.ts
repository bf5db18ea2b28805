import { expect, test } from 'vitest';
import { keysFor } from '../../src/shared/state/keys.ts';
import { eventsOf } from '../support/check-run.ts';
import { OwnRedis } from '../support/own-redis.ts';
import { testRedis, until } from '../support/redis.ts';
import { makeWorld, type World } from '../support/world.ts';

/** How often a worker of this run was lost without a release. */
async function crashesOf(world: World, runId: string): Promise<number> {
  const redis = await testRedis();
  return Number(await redis.hget(keysFor(world.fleet.prefix).run(runId), 'crashes'));
}

test('a draining worker lets the tool end and another one continues from its result', async () => {
  // On a busy machine a short lease would run out, and then the outcome of the tool is unknown.
  const world = await makeWorld({ env: { LOCK_DURATION_MS: '15000' } });
  const run = await world.submit('hands', [
    { calls: [{ name: 'charge', args: { id: 'c', gate: 'end' } }] },
    { text: 'Done.' },
  ]);
  await world.toolWorks(run);
  const draining = world.worker;
  await world.addWorker();
  draining.signal('SIGTERM');
  // A signal may come later than a gate that opens after it.
  await until('the worker drains', () => draining.output.includes('worker is draining'));
  world.fleet.openGate('end');
  const observed = await world.ended(run);
  expect(observed.view).toMatchObject({ status: 'completed', result: { text: 'Done.' } });
  expect(observed.view.worker).not.toContain(`-${draining.pid}-`);
  expect(await draining.exited).toMatchObject({ code: 0 });
  expect(observed.executions).toHaveLength(1);
  expect(eventsOf(observed, 'tool.execute.end')).toHaveLength(1);
  expect(eventsOf(observed, 'tool.outcome_unknown')).toEqual([]);
  expect(world.provider.calls.map(({ step }) => step)).toEqual([1, 2]);
  expect(await crashesOf(world, run.runId)).toBe(0);
});

test('what still runs after the grace is cut off and handed over, and counts as no crash', async () => {
  // Long leases: on a busy machine a short one would run out, and that is a crash.
  const world = await makeWorld({ env: { SHUTDOWN_GRACE_MS: '300', LOCK_DURATION_MS: '15000' } });
  const gate = 'grace';
  const streaming = await world.submit('plain', [{ text: 'one two three', hold: { gate, afterPieces: 1 } }]);
  const working = await world.submit('hands', [
    { calls: [{ name: 'stubborn', args: { id: 's', gate: 'grace' } }] },
    { text: 'Done.' },
  ]);
  await world.provider.gates.reached(gate);
  await world.toolWorks(working);
  const draining = world.worker;
  await world.addWorker();
  draining.signal('SIGTERM');
  expect(await draining.exited).toMatchObject({ code: 0 });
  await world.toolWorks(working, 2);
  world.provider.gates.open(gate);
  world.fleet.openGate('grace');
  for (const run of [streaming, working]) {
    const observed = await world.ended(run);
    expect(observed.view).toMatchObject({ status: 'completed', recoveries: 1 });
    expect(await crashesOf(world, run.runId)).toBe(0);
  }
});

test('a run that waits in the queue of a draining worker is left to the others', async () => {
  const world = await makeWorld({ env: { WORKER_CONCURRENCY: '1' } });
  const gate = 'slot';
  const first = await world.submit('plain', [{ text: 'one two', hold: { gate, afterPieces: 1 } }]);
  await world.provider.gates.reached(gate);
  const second = await world.submit('plain', [{ text: 'second' }]);
  world.worker.signal('SIGTERM');
  world.provider.gates.open(gate);
  expect(await world.worker.exited).toMatchObject({ code: 0 });
  await world.addWorker();
  expect((await world.ended(first)).view.status).toBe('completed');
  expect((await world.ended(second)).view).toMatchObject({ status: 'completed', recoveries: 0 });
});

test('a second signal ends a worker at once', async () => {
  const world = await makeWorld();
  const run = await world.submit('hands', [{ calls: [{ name: 'look', args: { id: 'l', gate: 'never' } }] }]);
  await world.toolWorks(run);
  world.worker.signal('SIGTERM');
  world.worker.signal('SIGINT');
  expect(await world.worker.exited).toMatchObject({ code: 1 });
});

test('a worker that drains while Redis is away exits by its deadline', async () => {
  const redis = await OwnRedis.start();
  const world = await makeWorld({ redisUrl: redis.url, env: { SHUTDOWN_GRACE_MS: '200' } });
  const run = await world.submit('hands', [
    { calls: [{ name: 'put', args: { id: 'p', gate: 'away' } }] },
    { text: 'Done.' },
  ]);
  await world.toolWorks(run);
  await redis.kill();
  world.worker.signal('SIGTERM');
  await world.worker.exited;
  await redis.start();
  await world.reachable();
  world.fleet.openGate('away');
  await world.addWorker();
  expect((await world.ended(run)).view.status).toBe('completed');
});
