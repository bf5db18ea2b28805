import { expect, test } from 'vitest';
import { keysFor } from '../../src/shared/state/keys.ts';
import { eventsOf, type Observed } from '../support/check-run.ts';
import { planInput } from '../support/plan.ts';
import { keepAlive } from '../support/platform.ts';
import { poisonPlan } from '../support/poisoned.ts';
import { testRedis, until } from '../support/redis.ts';
import { seeded } from '../support/seeded.ts';
import { makeWorld, type World } from '../support/world.ts';

const runs = 200;
const kills = 10;
const everyMs = 2_000;

/** Text from people and models that parsers trip over. */
const oddities = ['\ud83d', 'a\u0000b', '__proto__', '\u{1f680}', '"\\', ''];

test('two hundred runs survive a worker killed every two seconds, and one among them that kills its workers', async () => {
  const random = seeded();
  const world = await makeWorld({ workers: 2, env: { WORKER_CONCURRENCY: '10' } });
  keepAlive(world);
  const answers = await world.mill.enqueueMany(
    Array.from({ length: runs }, (_, i) => ({ agent: 'hands', input: planFor(i) })),
  );
  const ids = answers.map((answer) => ('runId' in answer ? answer.runId : ''));
  expect(ids.filter(Boolean)).toHaveLength(runs);
  const poison = await world.submit('hands', poisonPlan);

  const ended = Promise.all(ids.map((runId) => world.ended({ runId })));
  ended.catch(() => {});
  for (let kill = 0; kill < kills; kill++) {
    await new Promise((resolve) => setTimeout(resolve, everyMs));
    await killOne(world, random);
  }
  const observed = await ended;

  expect(
    observed.filter(({ view }) => view.status !== 'completed').map(({ view }) => [view.runId, view.status, view.error]),
  ).toEqual([]);
  for (const run of observed) checkStormed(run);
  const recoveries = observed.reduce((sum, { view }) => sum + view.recoveries, 0);
  expect(recoveries, 'the kills hit runs').toBeGreaterThan(kills);
  const callsOfPoison = world.provider.callsOf(poison.runId).length;
  expect(world.provider.calls.length - callsOfPoison).toBeLessThanOrEqual(3 * runs + recoveries);
  expect((await world.ended(poison)).view).toMatchObject({ status: 'failed', error: { code: 'worker_lost' } });
  const deaths = world.fleet.executions.filter(({ tool }) => tool === 'detonate').length;
  const redis = await testRedis('work', world.fleet.redisUrl);
  const excuses = Number(await redis.hget(keysFor(world.fleet.prefix).run(poison.runId), 'excuses'));
  expect(excuses, 'of which a suspect of the other kills was to be blamed').toBeLessThanOrEqual(1);
  expect(deaths - excuses, 'processes that it took down, two of them in quarantine').toBeLessThanOrEqual(5);
  await checkNothingLeft(world);
});

/** About a second and a half of work: three model calls, every class of tool. */
function planFor(i: number): string {
  const odd = oddities[i % oddities.length] ?? '';
  return planInput(
    {
      text: 'I begin now. ',
      paceMs: 80,
      calls: [
        { name: 'charge', args: { id: `c${i}` } },
        { name: 'put', args: { id: `p${i}${odd}`, [odd]: odd } },
      ],
    },
    { calls: [{ name: 'look', args: { id: `l${i}` } }], text: 'And I look once more. ', paceMs: 80 },
    { text: `This was run ${i}. ${odd}`, paceMs: 80 },
  );
}

/** The platform starts another one in its place. */
async function killOne(world: World, random: ReturnType<typeof seeded>): Promise<void> {
  const alive = world.workers.filter((worker) => worker.isAlive);
  await alive[random.below(alive.length)]?.kill();
}

function checkStormed(run: Observed): void {
  const { view, executions } = run;
  expect(view.result?.text).toMatch(/^This was run \d+\./);
  const charges = executions.filter(({ tool }) => tool === 'charge').length;
  const unknown = eventsOf(run, 'tool.outcome_unknown').length;
  const known = eventsOf(run, 'tool.execute.end').filter(({ toolName }) => toolName === 'charge').length;
  expect(charges).toBeLessThanOrEqual(1);
  // Either its result was kept, or the run reports an unknown outcome.
  expect(known + unknown, `outcomes of the charge of run ${view.runId}`).toBe(1);
  expect(charges).toBeGreaterThanOrEqual(known);
}

async function checkNothingLeft(world: World): Promise<void> {
  await until('the queues are empty', async () => {
    // The maintenance queue always holds its next appointment.
    const { maintenance: _, ...depths } = await world.mill.queueDepths();
    return Object.values(depths).every(({ waiting, active, delayed }) => waiting + active + delayed === 0);
  });
  const { stuckRuns, openRuns, counters } = await world.mill.diagnose();
  expect({ stuckRuns, openRuns }).toEqual({ stuckRuns: [], openRuns: 0 });
  expect(counters['requeued'] ?? 0).toBe(0);
}
