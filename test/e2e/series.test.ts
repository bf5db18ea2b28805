import { expect, test } from 'vitest';
import { until } from '../support/redis.ts';
import { makeWorld } from '../support/world.ts';

test('producers count every run once, also when one of them is killed while runs end', async () => {
  const world = await makeWorld({ producer: true });
  const { fleet, mill } = world;
  const others = await Promise.all([fleet.startProducer(), fleet.startProducer()]);
  const runs: string[] = [];
  const submit = async (count: number) => {
    const handles = await Promise.all(Array.from({ length: count }, () => world.submit('plain', [{ text: 'Done.' }])));
    runs.push(...handles.map(({ runId }) => runId));
  };
  await submit(15);
  await until('some runs are counted', async () => (await sums()).ended > 0);
  await submit(15);
  await others[0].child.kill();
  await submit(10);
  const observed = await Promise.all(runs.map((runId) => mill.result(runId, { waitMs: 60_000 })));
  const costMicrocents = observed.reduce((sum, run) => sum + run.costMicrocents, 0);
  await until('all runs are counted', async () => (await sums()).ended >= 40);
  // Another page, after which whatever was counted twice would show.
  await submit(1);
  await until('the last run is counted', async () => (await sums()).ended >= 41);
  const { costMicrocents: counted, ...rest } = await sums();
  expect(rest).toEqual({ queued: 41, started: 41, ended: 41 });
  const last = await mill.result(runs.at(-1) as string);
  expect(counted).toBe(costMicrocents + last.costMicrocents);
  const answer = await fetch(`${world.url}/v1/metrics/series?from=1h`);
  expect(await answer.json()).toMatchObject({ stepS: 10, agents: [{ agent: 'plain', ended: 41 }] });

  async function sums() {
    const { points } = await mill.series();
    const sum = (field: 'queued' | 'started' | 'ended' | 'costMicrocents') =>
      points.reduce((total, point) => total + point[field], 0);
    return {
      queued: sum('queued'),
      started: sum('started'),
      ended: sum('ended'),
      costMicrocents: sum('costMicrocents'),
    };
  }
});

test('a run that failed, was redriven and ended well is one run of its agent that did not fail', async () => {
  const world = await makeWorld({ producer: true });
  const { mill } = world;
  const run = await world.submit('plain', [{ text: 'Done.', faults: [{ kind: 'status', status: 400 }] }]);
  expect((await mill.result(run.runId)).status).toBe('failed');
  const agent = async () => (await mill.series()).agents.find((each) => each.agent === 'plain');
  await until('the failure is counted', async () => (await agent())?.failed === 1);
  await mill.redrive({ runId: run.runId });
  expect((await mill.result(run.runId)).status).toBe('completed');
  await until('the second end is counted', async () =>
    (await mill.series()).points.some((point) => point.ended === 2 || point.endedBy['completed'] === 1),
  );
  expect(await agent()).toMatchObject({ ended: 1, failed: 0 });
});

test.each([
  [{ from: '8d' }, 'from'],
  [{ from: '1h', to: '2h' }, 'from'],
  [{ from: '2h', step: 10 }, 'step'],
  [{ step: 15 }, 'step'],
  [{ from: 'soon' }, 'from'],
] as const)('counters for %o are refused', async (query, path) => {
  const { mill } = (await makeWorld({ workers: 0 })).fleet;
  await expect(mill.series(query)).rejects.toMatchObject({ code: 'validation', details: [{ path }] });
});
