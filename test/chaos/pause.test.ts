import { expect, test } from 'vitest';
import { eventsOf } from '../support/check-run.ts';
import type { WorkerChild } from '../support/fleet.ts';
import { call } from '../support/http.ts';
import { until } from '../support/redis.ts';
import { makeWorld } from '../support/world.ts';

/** Resolves once this worker works on nothing any more. */
async function idle({ healthUrl }: WorkerChild): Promise<void> {
  await until('the worker is idle', async () =>
    /^millrace_runs_active 0$/m.test(String((await call('GET', `${healthUrl}/metrics`)).body)),
  );
}

test('a paused worker that wakes up while another one works stops its run and writes nothing', async () => {
  const world = await makeWorld({ workers: 2, env: { STREAM_FLUSH_MS: '0' } });
  const gate = 'both';
  const run = await world.submit('plain', [{ text: 'one two three four five six', hold: { gate, afterPieces: 3 } }]);
  await world.provider.gates.reached(gate);
  const zombie = await world.workerOf(run);
  zombie.signal('SIGSTOP');
  await until('another worker has asked', () => world.provider.callsOf(run.runId).length === 2);
  zombie.signal('SIGCONT');
  await until('the zombie hangs up', () => world.provider.callsOf(run.runId)[0]?.ended === 'closed');
  await idle(zombie);
  world.provider.gates.open(gate);
  const observed = await world.ended(run);
  expect(observed.view).toMatchObject({ status: 'completed', recoveries: 1 });
  expect(observed.view.worker).not.toContain(`-${zombie.pid}-`);
  expect(world.provider.callsOf(run.runId)).toHaveLength(2);
});

test('a paused worker that wakes up after the end with a whole answer in its hands changes nothing', async () => {
  const world = await makeWorld({ workers: 2, env: { STREAM_FLUSH_MS: '0' } });
  const gate = 'end';
  const run = await world.submit('plain', [{ text: 'one two three four five six', hold: { gate, afterPieces: 3 } }]);
  await world.provider.gates.reached(gate);
  const zombie = await world.workerOf(run);
  zombie.signal('SIGSTOP');
  world.provider.gates.open(gate);
  const before = await world.ended(run);
  zombie.signal('SIGCONT');
  await idle(zombie);
  expect(await world.ended(run)).toEqual(before);
  expect(before.view).toMatchObject({ status: 'completed', recoveries: 1 });
});

test('a paused worker does not finish a once tool into a run that has gone on', async () => {
  const world = await makeWorld({ workers: 2 });
  const run = await world.submit('hands', [
    { calls: [{ name: 'charge', args: { id: 'c', gate: 'late' } }] },
    { text: 'On.' },
  ]);
  await world.toolWorks(run);
  const zombie = await world.workerOf(run);
  zombie.signal('SIGSTOP');
  const before = await world.ended(run);
  world.fleet.openGate('late');
  zombie.signal('SIGCONT');
  await idle(zombie);
  expect(await world.ended(run)).toEqual(before);
  expect(before.executions).toHaveLength(1);
  expect(eventsOf(before, 'tool.outcome_unknown')).toHaveLength(1);
});

test('a worker that was paused alone runs its own job at most once more', async () => {
  const world = await makeWorld({ workers: 1 });
  const gate = 'alone';
  const runs = await Promise.all(
    Array.from({ length: 4 }, () => world.submit('plain', [{ text: 'one two three', hold: { gate, afterPieces: 1 } }])),
  );
  await until('all have begun', () => world.provider.calls.length === runs.length);
  const [watcher] = runs;
  world.worker.signal('SIGSTOP');
  // Only Redis shows that the lease has ended: its lock keys are gone.
  await world.locksGone();
  world.worker.signal('SIGCONT');
  await until('all have begun again', () => world.provider.calls.length === 2 * runs.length);
  world.provider.gates.open(gate);
  for (const run of runs) {
    const { view } = await world.ended(run);
    expect(view).toMatchObject({ status: 'completed', recoveries: 1 });
  }
  expect(watcher && world.provider.callsOf(watcher.runId)).toHaveLength(2);
  await idle(world.worker);
});
