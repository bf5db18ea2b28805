import { expect } from 'vitest';
import { keepAlive } from './platform.ts';
import { planInput, type PlannedStep } from './plan.ts';
import { until } from './redis.ts';
import type { World } from './world.ts';

/** A run that calls a `once` tool which ends its process, and calls it again whatever the result is. */
export const poisonPlan: readonly PlannedStep[] = [
  ...Array.from({ length: 11 }, (_, i) => ({ calls: [{ name: 'detonate', args: { id: `x${i}` } }] })),
  { text: 'unreachable' },
];

/** Every fourth neighbour sits in a call until the poison is gone; the others come and go. */
function neighbourPlan(i: number): string {
  const gate = i % 4 === 0 ? { gate: 'over' } : {};
  return planInput(
    { text: 'I begin. ', paceMs: 40, calls: [{ name: 'put', args: { id: `n${i}`, ...gate } }] },
    { calls: [{ name: 'look', args: { id: `l${i}` } }], text: 'I look. ', paceMs: 40 },
    { text: 'Unharmed.' },
  );
}

/** One poison run among `runs` on three workers: it ends in quarantine, and no other run goes there. */
export async function checkPoisonAmong(world: World, runs: number): Promise<void> {
  const platform = keepAlive(world);
  const half = Math.floor(runs / 2);
  const submit = (from: number, to: number) =>
    world.mill.enqueueMany(
      Array.from({ length: to - from }, (_, i) => ({ agent: 'hands', input: neighbourPlan(from + i) })),
    );
  const before = await submit(0, half);
  const poison = await world.submit('hands', poisonPlan);
  const after = await submit(half, runs - 1);
  const deaths = () => world.fleet.executions.filter(({ tool }) => tool === 'detonate').length;
  await until('the poison run has ended', async () => (await world.mill.get(poison.runId)).status === 'failed', 90_000);
  world.fleet.openGate('over');
  const neighbours = [...before, ...after].map((answer) => ('runId' in answer ? answer.runId : ''));
  expect(neighbours.filter(Boolean)).toHaveLength(runs - 1);
  const observed = await Promise.all(neighbours.map((runId) => world.ended({ runId })));
  expect(
    observed.filter(({ view }) => view.status !== 'completed').map(({ view }) => [view.runId, view.error]),
  ).toEqual([]);
  const { view } = await world.ended(poison);
  expect(view).toMatchObject({ status: 'failed', error: { code: 'worker_lost', retryable: false } });
  expect(platform.restarts, 'workers that the poison took down').toBeLessThanOrEqual(3);
  expect(deaths(), 'two more died of it in quarantine').toBeLessThanOrEqual(5);
  expect((await world.mill.diagnose()).counters, 'no other run was in quarantine').toMatchObject({ quarantined: 1 });
}
