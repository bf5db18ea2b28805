import { describe, expect, test } from 'vitest';
import { eventsOf, type Observed } from '../support/check-run.ts';
import { call } from '../support/http.ts';
import { planInput, type PlannedStep } from '../support/plan.ts';
import { until } from '../support/redis.ts';
import { makeWorld, shareWorld, type World } from '../support/world.ts';

const shared = shareWorld({ producer: true, env: { WORKER_CONCURRENCY: '1' } });

/** A step that asks agents, each of which follows its plan. */
const asks = (...questions: readonly [agent: string, ...plan: PlannedStep[]][]): PlannedStep => ({
  calls: questions.map(([agent, ...plan]) => ({ name: 'ask_agent', args: { agent, message: planInput(...plan) } })),
});

interface ChildEvent {
  readonly type: string;
  readonly runId: string;
  readonly sequenceNumber: number;
  readonly toolCallId?: string;
}

/** What the log of a run says about its children. */
const childEvents = (observed: Observed) =>
  eventsOf(observed, 'subagent.event').map(({ childRunId, childDepth, event }) => ({
    childRunId,
    childDepth,
    event: event as ChildEvent,
  }));

async function children(world: World, parentRunId: string) {
  return (await world.mill.list({ parent: parentRunId })).runs;
}

describe('agents that ask agents', () => {
  test('three deep on a worker that runs one at a time, and the first pays for all', async () => {
    const { world } = shared;
    const run = await world.submit('asker', [
      asks(['asker', asks(['asker', asks(['plain', { text: 'deepest' }]), { text: 'third' }]), { text: 'second' }]),
      { text: 'first' },
    ]);
    const observed = await world.ended(run);
    expect(observed.view).toMatchObject({ status: 'completed', result: { text: 'first' }, steps: 2 });
    expect(eventsOf(observed, 'tool.execute.end')).toMatchObject([{ toolName: 'ask_agent', outputSummary: 'second' }]);
    expect(observed.view.attempts.map(({ attemptNumber }) => attemptNumber)).toEqual([1, 2]);

    const relayed = childEvents(observed);
    const runIds = [...new Set(relayed.map(({ childRunId }) => childRunId))];
    expect(runIds).toHaveLength(3);
    const views = await Promise.all(runIds.map((id) => world.mill.get(id)));
    expect(views.map(({ depth, status }) => [depth, status])).toEqual([1, 2, 3].map((depth) => [depth, 'completed']));
    const own = [observed.view, ...views].map(({ attempts }) => attempts.reduce((sum, a) => sum + a.costMicrocents, 0));
    expect(observed.view.costMicrocents).toBe(own.reduce((a, b) => a + b, 0));
    expect(Math.min(...own)).toBeGreaterThan(0);
    for (const [index, id] of runIds.entries()) {
      const mine = relayed.filter(({ childRunId }) => childRunId === id);
      expect(mine.every(({ childDepth }) => childDepth === index + 1)).toBe(true);
      const numbers = mine.map(({ event }) => event.sequenceNumber);
      expect(numbers, 'in the order of the child').toEqual(numbers.toSorted((a, b) => a - b));
      expect(mine.map(({ event }) => event.type)).toEqual(expect.arrayContaining(['run.started', 'run.completed']));
    }
    expect(eventsOf(observed, 'agent.end')).toMatchObject([{ output: 'first' }]);
  });

  test('a fourth level is refused, and the model gets the reason', async () => {
    const { world } = shared;
    const run = await world.submit('asker', [
      asks([
        'asker',
        asks(['asker', asks(['asker', asks(['plain', { text: 'too deep' }]), { text: 'third' }]), { text: 'b' }]),
        { text: 'a' },
      ]),
      { text: 'done' },
    ]);
    const observed = await world.ended(run);
    expect(observed.view.status).toBe('completed');
    const refused = childEvents(observed).filter(({ event }) => event.type === 'tool.execute.error');
    expect(refused).toMatchObject([{ childDepth: 3, event: { error: { kind: 'depth_limit' } } }]);
  });

  test('questions of one step are answered in parallel, and answered in their order', async () => {
    const world = await makeWorld({ workers: 1, env: { WORKER_CONCURRENCY: '4' } });
    const hold = { gate: 'both', afterPieces: 0 };
    const run = await world.submit('asker', [
      asks(['plain', { text: 'slow', hold }], ['plain', { text: 'quick', hold }]),
      { text: 'ok' },
    ]);
    await until('both are asked', () => world.provider.calls.length === 3);
    world.provider.gates.open('both');
    const observed = await world.ended(run);
    const [, last] = world.provider.callsOf(run.runId);
    expect(last?.messages.filter(({ role }) => role === 'tool').map(({ content }) => content)).toEqual([
      'slow',
      'quick',
    ]);
    expect(eventsOf(observed, 'tool.execute.end')).toHaveLength(2);
    expect(eventsOf(observed, 'tool.execute.start')).toHaveLength(2);
  });

  test('an agent that fails is a failed call, and what it cost counts', async () => {
    const { world } = shared;
    const failing: PlannedStep = { text: 'x', faults: [{ kind: 'status', status: 401 }] };
    const run = await world.submit('asker', [asks(['plain', failing], ['absent', { text: '-' }]), { text: 'ok' }]);
    const observed = await world.ended(run);
    expect(observed.view).toMatchObject({ status: 'completed', result: { text: 'ok' } });
    expect(eventsOf(observed, 'tool.execute.error').map(({ error }) => error)).toMatchObject([
      { kind: 'invalid_input', message: expect.stringContaining('there is no agent absent to ask') },
      { kind: 'execution_failed', message: expect.stringContaining('the other agent failed') },
    ]);
    expect(await children(world, run.runId)).toMatchObject([{ status: 'failed', agent: 'plain', depth: 1 }]);
  });

  test('a run that is cancelled ends after its children, and knows what they cost', async () => {
    const { world } = shared;
    const hold = { gate: 'never', afterPieces: 1 };
    const deep = asks(['plain', { text: 'one two three', hold }]);
    const run = await world.submit('asker', [asks(['asker', deep, { text: '-' }]), { text: '-' }]);
    await until('the deepest answers', () => world.provider.calls.some(({ ended }) => ended === 'open'));
    await run.cancel({ reason: 'enough' });
    const observed = await world.ended(run);
    expect(observed.view.status).toBe('cancelled');
    expect(eventsOf(observed, 'run.cancelled')).toMatchObject([{ reason: 'enough' }]);
    const [child] = await children(world, run.runId);
    const [grandchild] = await children(world, child?.runId ?? '');
    expect([child?.status, grandchild?.status]).toEqual(['cancelled', 'cancelled']);
    const own = observed.view.attempts.reduce((sum, a) => sum + a.costMicrocents, 0);
    expect(observed.view.costMicrocents).toBe(own + (child?.costMicrocents ?? Number.NaN));
    await until('the model server sees it', () => world.provider.calls.every(({ ended }) => ended !== 'open'));
  });

  test('a worker that is killed in the middle of everything changes nothing', async () => {
    const world = await makeWorld({ workers: 2, env: { WORKER_CONCURRENCY: '2' } });
    const hold = { gate: 'go', afterPieces: 1 };
    const run = await world.submit('asker', [
      asks(['asker', asks(['plain', { text: 'one two three', hold }]), { text: 'middle' }]),
      { text: 'top' },
    ]);
    await until('the deepest answers', () => world.provider.calls.some(({ ended }) => ended === 'open'));
    const { runs } = await world.mill.list({ status: 'running' });
    const worker = await world.workerOf({ runId: runs[0]?.runId ?? '' });
    worker.signal('SIGKILL');
    world.provider.gates.open('go');
    const observed = await world.ended(run);
    expect(observed.view).toMatchObject({ status: 'completed', result: { text: 'top' } });
    expect(await children(world, run.runId)).toHaveLength(1);
    expect(world.provider.callsOf(run.runId).map(({ step }) => step)).toEqual([1, 2]);
  });

  test('the first run pays for all: its cap stops its children', async () => {
    const { world } = shared;
    const long = Array.from({ length: 12 }, () => asks(['plain', { text: 'costly' }]));
    const budget = { maxCostMicrocents: 60_000 };
    const run = await world.submit('asker', [...long, { text: 'done' }], { budget });
    const observed = await world.ended(run);
    expect(observed.view.costMicrocents).toBeLessThanOrEqual(60_000);
    const ended = await children(world, run.runId);
    const codes = [observed.view.error?.code, ...ended.map(({ error }) => error?.code)];
    expect(codes).toContain('budget_exceeded');
  });

  test('what a child needs people for is decided there, and seen in its parent', async () => {
    const { world } = shared;
    const charge: PlannedStep = { calls: [{ name: 'charge', args: { id: 'below' } }] };
    const run = await world.submit('asker', [asks(['gated', charge, { text: 'paid' }]), { text: 'all done' }]);
    const child = await until('the child waits for people', async () => {
      const [found] = await children(world, run.runId);
      return found?.status === 'suspended' && found.pending[0]?.kind === 'approval' ? found : undefined;
    });
    const view = await call('GET', `${world.url}/v1/runs/${run.runId}`);
    expect(view.body).toMatchObject({
      status: 'suspended',
      pending: [{ kind: 'child', id: child.runId, toolName: 'ask_agent' }],
      children: [{ runId: child.runId, agent: 'gated', status: 'suspended', pending: [{ kind: 'approval' }] }],
    });
    const approvals = [{ toolCallId: child.pending[0]?.toolCallId, granted: true }];
    const answer = await call('POST', `${world.url}/v1/runs/${run.runId}/decisions`, { approvals });
    expect(answer.status, 'a decision may be given to the parent').toBe(202);
    const observed = await world.ended(run);
    expect(observed.view.result).toMatchObject({ text: 'all done' });
    expect(world.fleet.executions.filter(({ id }) => id === 'below')).toHaveLength(1);
  });
});
