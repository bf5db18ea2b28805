import { describe, expect, test } from 'vitest';
import type { RunRequestInput, RunView } from '../../src/producer/index.ts';
import { eventsOf, type Observed } from '../support/check-run.ts';
import { call } from '../support/http.ts';
import { planInput, type PlannedStep } from '../support/plan.ts';
import { until } from '../support/redis.ts';
import { millrace, settings } from '../producer/cli/support/cli-process.ts';
import { makeWorld, shareWorld, type World } from '../support/world.ts';

const shared = shareWorld({ producer: true, env: { WORKER_CONCURRENCY: '1' } });

type FanOut = NonNullable<RunRequestInput['fanOut']>;
type Child = FanOut['children'][number];

const child = (id: string, ...plan: PlannedStep[]): Child => ({ agent: 'plain', id, input: planInput(...plan) });

/** A fan-out over these children, through the queue. */
async function ask(world: World, children: readonly Child[], more: Partial<FanOut> = {}, rest = {}) {
  return await world.mill.enqueue({ agent: 'plain', input: '', fanOut: { children: [...children], ...more }, ...rest });
}

async function below(world: World, parent: { readonly runId: string }): Promise<readonly RunView[]> {
  return (await world.mill.list({ parent: parent.runId, limit: 100 })).runs;
}

interface Shown {
  readonly id: string;
  readonly runId?: string;
  readonly status: string;
  readonly output?: string;
  readonly costMicrocents: number;
  readonly error?: { readonly code: string; readonly message: string };
}

function shownBy({ view }: Observed): readonly Shown[] {
  const { children } = (view.result?.output ?? { children: [] }) as { readonly children: readonly Shown[] };
  return children;
}

const held = (gate: string): PlannedStep => ({ text: 'one two three', hold: { gate, afterPieces: 1 } });

describe('a fan-out over the queue', () => {
  test('of twenty ends on one worker that runs one at a time, and costs what its children cost', async () => {
    const { world } = shared;
    const names = Array.from({ length: 20 }, (_, index) => `c${index}`);
    const children = names.map((id) => child(id, { text: `answer of ${id}` }));
    const run = await ask(world, children, { mergeStrategy: { kind: 'concat', separator: '|' } });
    const observed = await world.ended(run);
    expect(observed.view.result?.text).toBe(names.map((id) => `answer of ${id}`).join('|'));
    const views = await below(world, run);
    expect(views.map(({ status, depth }) => [status, depth])).toEqual(names.map(() => ['completed', 1]));
    const cost = views.reduce((sum, { costMicrocents }) => sum + costMicrocents, 0);
    expect(cost).toBeGreaterThan(0);
    expect(observed.view).toMatchObject({ costMicrocents: cost, childCostMicrocents: cost, steps: 0, attempts: [] });
    expect(
      shownBy(observed).map(({ id, runId, status }) => [id, status, views.some((v) => v.runId === runId)]),
    ).toEqual(names.map((id) => [id, 'completed', true]));
    expect(eventsOf(observed, 'agent.fanout.spawned')).toMatchObject([{ children: names }]);
    expect(eventsOf(observed, 'agent.fanout.merged')).toMatchObject([{ strategy: 'concat', children: names }]);
    const waits = eventsOf(observed, 'run.suspended').map(({ pending }) => pending.length);
    expect(Math.max(...waits), 'no more than four work at a time').toBe(4);
  });

  test('takes the first success, and stops the rest', async () => {
    const world = await makeWorld({ workers: 1, env: { WORKER_CONCURRENCY: '6' } });
    const children = [
      child('slow', held('never')),
      child('broken', { text: 'x', faults: [{ kind: 'status', status: 401 }] }),
      child('late', held('never')),
      child('quick', held('quick')),
      child('unasked', { text: 'x' }),
    ];
    const run = await ask(world, children, { mergeStrategy: { kind: 'first-success' }, maxConcurrentChildren: 4 });
    // The broken one makes room for the last one, unless a child was faster.
    await until('three answer', () => world.provider.calls.filter(({ ended }) => ended === 'open').length === 3);
    world.provider.gates.open('quick');
    const observed = await world.ended(run);
    expect(observed.view).toMatchObject({ status: 'completed' });
    const shown = shownBy(observed);
    const winner = shown.find(({ status }) => status === 'completed');
    expect(observed.view.result?.text).toBe(winner?.output);
    expect(shown.map(({ id, status }) => [id, status])).toEqual(
      expect.arrayContaining([
        ['slow', 'cancelled'],
        ['broken', 'failed'],
        ['late', 'cancelled'],
      ]),
    );
    await until('the model server sees it', () => world.provider.calls.every(({ ended }) => ended !== 'open'));
    for (const { status } of await below(world, run)) expect(['completed', 'cancelled', 'failed']).toContain(status);
  });

  test('stops a child whose time is over, and looks at tokens afterwards', async () => {
    const world = await makeWorld({ workers: 1, env: { WORKER_CONCURRENCY: '3' } });
    const children = [child('slow', held('never')), child('quick', { text: 'here' })];
    const perBudget = { durationMs: 5_000 };
    const observed = await world.ended(await ask(world, children, { perBudget }));
    expect(observed.view.result?.text).toBe('here');
    expect(shownBy(observed)).toMatchObject([
      { status: 'budget_exceeded', error: { code: 'budget_exceeded', message: 'the child passed its 5000 ms' } },
      { status: 'completed' },
    ]);
    const greedy = await ask(world, [child('greedy', { text: 'costly' }), child('asker', { text: 'b' })], {
      perBudget: { tokens: 119 },
    });
    expect(shownBy(await world.ended(greedy)).map(({ status }) => status)).toEqual([
      'budget_exceeded',
      'budget_exceeded',
    ]);
  });

  test('that is cancelled ends after its children, and knows what they cost', async () => {
    const world = await makeWorld({ workers: 1, env: { WORKER_CONCURRENCY: '3' } });
    const children = ['a', 'b', 'c', 'd', 'e', 'f'].map((id) => child(id, held('never')));
    const run = await ask(world, children);
    await until('some answer', () => world.provider.calls.filter(({ ended }) => ended === 'open').length === 3);
    await run.cancel({ reason: 'enough' });
    const observed = await world.ended(run);
    expect(observed.view.status).toBe('cancelled');
    expect(eventsOf(observed, 'run.cancelled')).toMatchObject([{ reason: 'enough' }]);
    const views = await below(world, run);
    expect(views.map(({ status }) => status)).toEqual(['cancelled', 'cancelled', 'cancelled', 'cancelled']);
    expect(observed.view.costMicrocents).toBe(views.reduce((sum, { costMicrocents }) => sum + costMicrocents, 0));
    await until('the model server sees it', () => world.provider.calls.every(({ ended }) => ended !== 'open'));
  });

  test('whose workers are killed one after the other changes nothing and emits nothing twice', async () => {
    const world = await makeWorld({ workers: 2, env: { WORKER_CONCURRENCY: '2' } });
    const children = Array.from({ length: 8 }, (_, index) => child(`c${index}`, held(`gate${index}`)));
    const run = await ask(world, children, { mergeStrategy: { kind: 'custom', merge: 'counted' } }, { input: 'what' });
    for (const round of [0, 4]) {
      await until(`work of round ${round}`, () => world.provider.calls.some(({ ended }) => ended === 'open'));
      const { runs } = await world.mill.list({ status: 'running' });
      const worker = await world.workerOf({ runId: runs[0]?.runId ?? '' });
      worker.signal('SIGKILL');
      await world.addWorker();
      for (let index = round; index < round + 4; index++) world.provider.gates.open(`gate${index}`);
    }
    const observed = await world.ended(run);
    expect(observed.view).toMatchObject({
      status: 'completed',
      result: { text: '{"answers":8,"input":"what"}', output: { merged: { answers: 8, input: 'what' } } },
    });
    expect(await below(world, run)).toHaveLength(8);
    expect(eventsOf(observed, 'agent.fanout.spawned')).toHaveLength(1);
    expect(eventsOf(observed, 'agent.fanout.merged')).toHaveLength(1);
    expect(world.fleet.executions.filter(({ tool }) => tool === 'counted')).toHaveLength(1);
  });

  test('asks a judge that workers have, whose guard may block what it made', async () => {
    const { world } = shared;
    const judged = (...texts: string[]) =>
      ask(
        world,
        texts.map((text) => child(text.slice(0, 3), { text })),
        { mergeStrategy: { kind: 'judge-merge', judge: 'longest' } },
      );
    const observed = await world.ended(await judged('short', 'the longest'));
    expect(observed.view.result?.text).toBe('the longest');
    expect(eventsOf(observed, 'agent.fanout.merged')).toMatchObject([{ strategy: 'judge-merge', weights: [0, 1] }]);
    const blocked = await world.ended(await judged('short', 'what is forbidden'));
    expect(blocked.view).toMatchObject({ status: 'failed', error: { code: 'merge_blocked' } });
  });

  test('has an agent for a judge, which is a run of its own and is shown all answers', async () => {
    const world = await makeWorld({ workers: 1, env: { WORKER_CONCURRENCY: '1' } });
    world.provider.unplanned = (said) => (said.includes('agents were asked') ? { text: 'one of all' } : undefined);
    const children = ['red', 'blue'].map((colour) => child(colour, { text: `it is ${colour}` }));
    const run = await ask(world, children, { mergeStrategy: { kind: 'judge-merge', judge: 'lonely' } });
    const observed = await world.ended(run);
    expect(observed.view.result?.text).toBe('one of all');
    const views = await below(world, run);
    const judge = views.find(({ agent }) => agent === 'lonely');
    const [{ messages } = { messages: [] }, ...more] = world.provider.callsOf(judge?.runId ?? '');
    expect(more).toEqual([]);
    expect(String(messages.at(-1)?.content)).toMatch(/it is red[^]*it is blue/);
    expect(views).toHaveLength(3);
    expect(observed.view.costMicrocents).toBe(views.reduce((sum, { costMicrocents }) => sum + costMicrocents, 0));
    expect(eventsOf(observed, 'agent.fanout.merged')).toMatchObject([{ strategy: 'judge-merge' }]);
  });

  test('names what is not there: agents at once, judges and functions where they would be needed', async () => {
    const { world } = shared;
    const fanOut = { children: [{ agent: 'plain' }, { agent: 'absent' }] };
    const refused = await call('POST', `${world.url}/v1/runs`, { agent: 'plain', input: 'x', fanOut });
    expect(refused).toMatchObject({
      status: 400,
      body: { error: { code: 'validation', details: [{ path: 'fanOut.children.1.agent' }] } },
    });
    const mixed = await call('POST', `${world.url}/v1/runs`, {
      agent: 'plain',
      input: 'x',
      thread: 't-1',
      fanOut: { children: [{ agent: 'plain' }] },
    });
    expect(mixed.body).toMatchObject({ error: { code: 'validation', details: [{ path: 'thread' }] } });
    for (const mergeStrategy of [
      { kind: 'judge-merge', judge: 'solomon' },
      { kind: 'custom', merge: 'solomon' },
    ] as const) {
      const observed = await world.ended(await ask(world, [child('a', { text: 'x' })], { mergeStrategy }));
      expect(observed.view).toMatchObject({
        status: 'failed',
        error: { code: 'validation', retryable: false, message: expect.stringContaining('solomon') },
      });
    }
  });

  test('is reached from the command line, which prints the merged answer', async () => {
    const { fleet } = shared.world;
    const args = ['fan-out', 'plain', 'plain', '--input', planInput({ text: 'yes' }), '--separator', ' and '];
    const { code, stdout, stderr } = await millrace(args, { env: settings(fleet.prefix) });
    expect(stdout).toBe('yes and yes\n');
    expect(stderr).toContain('merged: plain completed, plain completed');
    expect(code).toBe(0);
  });
});
