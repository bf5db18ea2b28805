import { describe, expect, test } from 'vitest';
import type { RunView } from '../../src/producer/index.ts';
import { eventsOf, type Observed } from '../support/check-run.ts';
import { call } from '../support/http.ts';
import type { PlannedStep } from '../support/plan.ts';
import { until } from '../support/redis.ts';
import { makeWorld, type World } from '../support/world.ts';

/** The second poem is better, and the judge takes its time with the first. */
function poetry(said: string): PlannedStep {
  if (!said.startsWith('Judge an answer')) return { text: said.includes('first poem') ? 'second poem' : 'first poem' };
  const hold = { gate: 'judged', afterPieces: 1 };
  if (said.includes('second poem')) return { text: '{"score": 9}' };
  return { text: '{"score": 4, "critique": "longer, please"}', hold };
}

async function poets(options: Parameters<typeof makeWorld>[0]): Promise<World> {
  const world = await makeWorld(options);
  world.provider.unplanned = poetry;
  return world;
}

async function below(world: World, { runId }: { readonly runId: string }): Promise<readonly RunView[]> {
  return (await world.mill.list({ parent: runId })).runs;
}

const sumOf = (views: readonly RunView[]) => views.reduce((sum, { costMicrocents }) => sum + costMicrocents, 0);

function expectTwoIterations(observed: Observed): void {
  expect(observed.view).toMatchObject({
    status: 'completed',
    result: {
      text: 'second poem',
      output: { termination: 'pass', best: 2, iterations: [{ output: 'first poem' }, { output: 'second poem' }] },
    },
    steps: 0,
    attempts: [],
  });
  expect(eventsOf(observed, 'agent.evaluator.iteration')).toMatchObject([
    { iteration: 1, passed: false, score: 4 },
    { iteration: 2, passed: true, score: 9 },
  ]);
  expect(eventsOf(observed, 'agent.evaluator.converged')).toMatchObject([{ termination: 'pass', iterations: 2 }]);
}

describe('an evaluator-optimizer over the queue', () => {
  test('whose worker is killed between two iterations pays for no answer twice and emits each of them once', async () => {
    const world = await poets({ workers: 1, producer: true, env: { WORKER_CONCURRENCY: '1' } });
    const evaluator = { judge: 'lonely', rubric: 'It is long.' };
    const run = await world.mill.evaluate({ generator: 'plain', evaluator, maxIterations: 4, input: 'Write a poem.' });
    await world.provider.gates.reached('judged');
    const shown = await call('GET', `${world.url}/v1/runs/${run.runId}`);
    expect(shown.body).toMatchObject({ status: 'suspended', children: [{ agent: 'lonely', status: 'running' }] });
    world.worker.signal('SIGKILL');
    await world.addWorker();
    world.provider.gates.open('judged');
    const observed = await world.ended(run);
    expectTwoIterations(observed);
    const views = await below(world, run);
    expect(views.map(({ status }) => status)).toEqual(Array.from({ length: 4 }, () => 'completed'));
    const generated = views.filter(({ agent }) => agent === 'plain');
    expect(generated.map(({ runId }) => world.provider.callsOf(runId).length)).toEqual([1, 1]);
    expect(world.provider.calls, 'only what was under way is asked again').toHaveLength(5);
    for (const { costMicrocents, attempts } of views)
      expect(costMicrocents).toBe(attempts.reduce((sum, attempt) => sum + attempt.costMicrocents, 0));
    expect(sumOf(views)).toBeGreaterThan(0);
    expect(observed.view).toMatchObject({ costMicrocents: sumOf(views), childCostMicrocents: sumOf(views) });
  });

  test('has its answers judged by an agent of its own instructions, whose run is killed with its worker', async () => {
    const world = await poets({ workers: 2 });
    const run = await world.mill.evaluate({
      generator: 'plain',
      evaluator: 'lonely',
      maxIterations: 4,
      input: 'Write a poem.',
    });
    const judge = await until('the judge works', async () => {
      const views = await below(world, run);
      return views.find(({ agent, status }) => agent === 'lonely' && status === 'running');
    });
    await world.provider.gates.reached('judged');
    const worker = await world.workerOf(judge);
    worker.signal('SIGKILL');
    world.provider.gates.open('judged');
    const observed = await world.ended(run);
    expectTwoIterations(observed);
    expect(observed.view.costMicrocents).toBe(sumOf(await below(world, run)));
  });
});
