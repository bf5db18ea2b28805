import { expect, test } from 'vitest';
import { eventBodies, type EventBody } from '../../../src/shared/contract/event.ts';
import { newRunId } from '../../../src/shared/base/ids.ts';
import { zeroUsage } from '../../../src/shared/contract/money.ts';
import type { RunOutcomeView } from '../../../src/shared/contract/run.ts';
import { createAgentWith } from '../../../src/worker/local/create-agent.ts';
import { createScriptedProvider, type ModelScript } from '../../../src/worker/llm/backends/scripted.ts';
import { always, callsTool } from '../../../src/testing/scripts.ts';
import { childOf } from '../../../src/worker/local/agent-handle.ts';
import { defineAgent } from '../../../src/worker/agents/define-agent.ts';
import { runFanOut } from '../../../src/worker/orchestration/fan-out.ts';
import type { FanOutChild, FanOutOptions } from '../../../src/worker/orchestration/fan-out-options.ts';
import type { ChildOutcome } from '../../../src/worker/agents/define-judge.ts';
import { defineTool } from '../../../src/worker/tools/define.ts';
import { graceMs } from '../../../src/shared/base/deadline.ts';
import { FakeClock } from '../../../src/testing/fake-clock.ts';
import { z } from 'zod';

const tokens = (total: number) => ({ ...zeroUsage, output: total, total });

function completed(output: string, more: Partial<ChildOutcome> = {}): ChildOutcome {
  return { status: 'completed', output, usage: tokens(10), costMicrocents: 5, toolCalls: 1, ...more };
}

function child(agentId: string, answer: ChildOutcome | Error | (() => Promise<ChildOutcome>)): FanOutChild {
  return {
    agentId,
    async invoke() {
      if (answer instanceof Error) throw answer;
      return typeof answer === 'function' ? await answer() : answer;
    },
  };
}

/** Works until it is stopped, then ends as a cancelled run does. */
function working(agentId: string): FanOutChild {
  return {
    agentId,
    invoke: (signal) =>
      new Promise((resolve) =>
        signal.addEventListener('abort', () => resolve(completed('', { status: 'cancelled' })), { once: true }),
      ),
  };
}

/** A child that answers when the test says so. */
function blocked(agentId: string) {
  const { promise, resolve } = Promise.withResolvers<ChildOutcome>();
  const started = Promise.withResolvers<void>();
  const one: FanOutChild = {
    agentId,
    invoke() {
      started.resolve();
      return promise;
    },
  };
  return { child: one, answer: resolve, started: started.promise };
}

const statusesOf = (result: { readonly children: readonly { readonly status: string }[] }) =>
  result.children.map(({ status }) => status);

test('ten children work four at a time', async () => {
  let [now, most] = [0, 0];
  const work = async () => {
    most = Math.max(most, ++now);
    await new Promise((resolve) => setImmediate(resolve));
    now--;
    return completed('x');
  };
  const children = Array.from({ length: 10 }, (_, at) => child(`c${at}`, work));
  const result = await runFanOut({ children });
  expect([most, result.children.length]).toEqual([4, 10]);
  most = 0;
  await runFanOut({ children, maxConcurrentChildren: 2 });
  expect(most).toBe(2);
});

const mixed = [child('a', completed('A')), child('b', new Error('broken')), child('c', completed('C'))];

test('the outputs of completed children are joined, and failures stand there only where they are asked for', async () => {
  const joined = await runFanOut({ children: mixed, mergeStrategy: { kind: 'concat', separator: '|' } });
  expect([joined.output, statusesOf(joined)]).toEqual(['A|C', ['completed', 'failed', 'completed']]);
  expect(joined.children[1]?.error).toEqual({ code: 'internal', message: 'broken', retryable: false });
  expect([joined.usage.total, joined.costMicrocents]).toEqual([20, 10]);
  expect((await runFanOut({ children: mixed })).output).toBe('A\n\n---\n\nC');
  const strategy = { kind: 'concat', separator: '|', includeFailures: true } as const;
  expect((await runFanOut({ children: mixed, mergeStrategy: strategy })).output).toBe('A|[failed: b]|C');
});

test('outputs stand in the order of the children, whichever was faster', async () => {
  const slow = blocked('slow');
  const fast = blocked('fast');
  const result = runFanOut({ children: [slow.child, fast.child], mergeStrategy: { kind: 'concat', separator: '|' } });
  await Promise.all([slow.started, fast.started]);
  fast.answer(completed('second'));
  await fast.started;
  slow.answer(completed('first'));
  expect((await result).output).toBe('first|second');
});

test('the first child that completes is the answer, and cancels the others, also those that never began', async () => {
  const quick = blocked('quick');
  let begun = false;
  const late = child('late', async () => {
    begun = true;
    return completed('late');
  });
  const options: FanOutOptions = {
    children: [working('one'), child('two', new Error('no')), quick.child, late],
    mergeStrategy: { kind: 'first-success' },
    maxConcurrentChildren: 2,
  };
  const running = runFanOut(options);
  await quick.started;
  quick.answer(completed('quick'));
  const result = await running;
  expect([result.output, begun]).toEqual(['quick', false]);
  expect(statusesOf(result)).toEqual(['cancelled', 'failed', 'completed', 'cancelled']);
  expect(result.usage.total).toBe(20);
});

test('a child that completes while it is being cancelled does not take the place of the first', async () => {
  const stubborn: FanOutChild = {
    agentId: 'stubborn',
    invoke: (signal) =>
      new Promise((resolve) => signal.addEventListener('abort', () => resolve(completed('too late')), { once: true })),
  };
  const children = [stubborn, child('first', completed('first'))];
  const result = await runFanOut({ children, mergeStrategy: { kind: 'first-success' } });
  expect([result.output, statusesOf(result)]).toEqual(['first', ['completed', 'completed']]);
});

test('nothing is the answer where no child completes', async () => {
  const children = [child('a', new Error('no')), child('b', completed('partial', { status: 'failed' }))];
  const result = await runFanOut({ children, mergeStrategy: { kind: 'first-success' } });
  expect([result.output, statusesOf(result)]).toEqual(['', ['failed', 'failed']]);
});

test.each(['judge-merge', 'custom'] as const)('%s gets all children and decides', async (kind) => {
  const decide = (children: readonly { readonly agentId: string; readonly status: string }[]) => ({
    best: children.map(({ agentId, status }) => `${agentId} ${status}`),
  });
  const mergeStrategy = kind === 'custom' ? { kind, merge: decide } : { kind, judge: decide };
  const { output } = await runFanOut({ children: mixed, mergeStrategy });
  expect(output).toEqual({ best: ['a completed', 'b failed', 'c completed'] });
});

test('what a judge throws is thrown', async () => {
  const judge = () => Promise.reject(new TypeError('confused'));
  await expect(runFanOut({ children: mixed, mergeStrategy: { kind: 'judge-merge', judge } })).rejects.toThrow(
    'confused',
  );
});

test('a merge guard sees the judged text and the children, and can refuse it', async () => {
  const events: EventBody[] = [];
  const mergeStrategy = { kind: 'judge-merge', judge: () => ({ text: 'C wins' }) } as const;
  const seen: string[] = [];
  const emit = (event: EventBody) => void events.push(event);
  const result = await runFanOut(
    { children: mixed, mergeStrategy },
    {
      emit,
      mergeGuard: ({ children, text }) => {
        seen.push(text, ...children.map(({ id }) => id));
        return { kind: 'pass', weights: [0.1, 0, 0.9] };
      },
    },
  );
  expect(result.output).toEqual({ text: 'C wins' });
  expect(seen).toEqual(['{"text":"C wins"}', 'a', 'b', 'c']);
  expect(events.at(-1)).toMatchObject({ type: 'agent.fanout.merged', weights: [0.1, 0, 0.9] });
  const refused = runFanOut(
    { children: mixed, mergeStrategy },
    { emit, mergeGuard: () => ({ kind: 'block', reason: 'biased' }) },
  );
  await expect(refused).rejects.toMatchObject({
    code: 'merge_blocked',
    message: 'biased',
    details: { children: [{ id: 'a', costMicrocents: 5 }, { id: 'b' }, { id: 'c' }] },
  });
  expect(events.at(-1)?.type).toBe('agent.fanout.spawned');
});

test('a child that used too much has passed its budget, and its siblings go on', async () => {
  const children = [
    child('many tokens', completed('a', { usage: tokens(11) })),
    child('many calls', completed('b', { toolCalls: 2 })),
    child('modest', completed('c')),
  ];
  const result = await runFanOut({ children, perBudget: { tokens: 10, toolCalls: 1 } });
  expect(statusesOf(result)).toEqual(['budget_exceeded', 'budget_exceeded', 'completed']);
  expect(result.output).toBe('c');
  expect(result.children.map(({ error }) => error?.message)).toEqual([
    'the child passed its 10 tokens',
    'the child passed its 1 tool calls',
    undefined,
  ]);
  expect(result.usage.total).toBe(31);
});

test('a child that passed its budget is no first success', async () => {
  const children = [child('greedy', completed('a', { usage: tokens(11) })), child('modest', completed('b'))];
  const result = await runFanOut({ children, mergeStrategy: { kind: 'first-success' }, perBudget: { tokens: 10 } });
  expect(result.output).toBe('b');
});

test('a child that is late is cut off with what it had reported of its spending', async () => {
  const clock = new FakeClock();
  const stubborn: FanOutChild = {
    agentId: 'stubborn',
    invoke(_, report) {
      report({ usage: tokens(7), costMicrocents: 3, toolCalls: 2 });
      return new Promise(() => {});
    },
  };
  const running = runFanOut(
    { children: [stubborn, working('slow'), child('quick', completed('c'))], perBudget: { durationMs: 500 } },
    { clock },
  );
  await clock.pass(500);
  await clock.pass(graceMs);
  const result = await running;
  expect(statusesOf(result)).toEqual(['budget_exceeded', 'budget_exceeded', 'completed']);
  expect(result.children[0]).toMatchObject({ usage: tokens(7), costMicrocents: 3, toolCalls: 2, durationMs: 500 });
  expect(result.output).toBe('c');
  expect(clock.sleeping).toBe(0);
});

test('a fan-out that is cancelled cancels its children and reports how each ended', async () => {
  const stop = new AbortController();
  const done = blocked('done');
  let judged = false;
  const running = runFanOut(
    {
      children: [done.child, working('slow'), child('never begun', completed('x'))],
      mergeStrategy: { kind: 'judge-merge', judge: () => ((judged = true), 'judged') },
      maxConcurrentChildren: 1,
    },
    { signal: stop.signal },
  );
  done.answer(completed('done'));
  await done.started;
  await new Promise((resolve) => setImmediate(resolve));
  // Also where the reason looks like a deadline.
  stop.abort(new DOMException('too long', 'TimeoutError'));
  const result = await running;
  expect(statusesOf(result)).toEqual(['completed', 'cancelled', 'cancelled']);
  expect([result.output, judged]).toEqual(['', false]);
  expect(statusesOf(await runFanOut({ children: mixed }, { signal: stop.signal }))).toEqual(
    Array.from({ length: 3 }, () => 'cancelled'),
  );
});

test('a cancelled fan-out has no output, also where children had completed', async () => {
  const stop = new AbortController();
  const stopping = child('b', async () => {
    stop.abort();
    return completed('B');
  });
  const result = await runFanOut({ children: [child('a', completed('A')), stopping] }, { signal: stop.signal });
  expect([result.output, result.children[0]?.output]).toEqual(['', 'A']);
});

test('a judge that is running when the fan-out is cancelled is left behind', async () => {
  const stop = new AbortController();
  const judge = (_: unknown, signal: AbortSignal) => {
    queueMicrotask(() => stop.abort());
    return new Promise<string>((resolve) =>
      signal.addEventListener('abort', () => void setTimeout(resolve, 60_000, 'late').unref()),
    );
  };
  const result = await runFanOut(
    { children: mixed, mergeStrategy: { kind: 'judge-merge', judge } },
    { signal: stop.signal },
  );
  expect(result.output).toBe('');
});

test('both events name every child in their order', async () => {
  const events: EventBody[] = [];
  const children = [...mixed, { ...child('a', completed('again')), id: 'second a' }];
  await runFanOut({ children }, { emit: (event) => void events.push(event) });
  expect(events).toEqual([
    { type: 'agent.fanout.spawned', children: ['a', 'b', 'c', 'second a'] },
    {
      type: 'agent.fanout.merged',
      strategy: 'concat',
      children: ['a', 'b', 'c', 'second a'],
      statuses: ['completed', 'failed', 'completed', 'completed'],
    },
  ]);
  for (const { type, ...body } of events) expect(eventBodies[type].parse(body)).toEqual(body);
});

test('a fan-out whose children answer as before ends as before', async () => {
  const options = { children: mixed, mergeStrategy: { kind: 'first-success' }, maxConcurrentChildren: 1 } as const;
  expect(await runFanOut(options)).toEqual(await runFanOut(options));
});

test.each<[string, object]>([
  ['no children', { children: [] }],
  ['too many at once', { children: mixed, maxConcurrentChildren: 65 }],
  ['none at once', { children: mixed, maxConcurrentChildren: 0 }],
  ['an unknown strategy', { children: mixed, mergeStrategy: { kind: 'vote' } }],
  ['a judge that is no function', { children: mixed, mergeStrategy: { kind: 'judge-merge', judge: 'gpt' } }],
  ['a budget of no time', { children: mixed, perBudget: { durationMs: 0 } }],
  ['a child without a function', { children: [{ agentId: 'a' }] }],
])('%s is refused before anything starts', async (_, options) => {
  const events: EventBody[] = [];
  const refused = runFanOut(options as FanOutOptions, { emit: (event) => void events.push(event) });
  await expect(refused).rejects.toMatchObject({ code: 'invalid_config' });
  expect(events).toEqual([]);
});

test('a child that answers nonsense has failed', async () => {
  const odd = { agentId: 'odd', invoke: async () => 'text' as unknown as ChildOutcome };
  const { children } = await runFanOut({ children: [odd] });
  expect(children[0]).toMatchObject({ status: 'failed', error: { code: 'validation' } });
});

function agent(id: string, script: ModelScript, tools: Parameters<typeof defineAgent>[0]['tools'] = []) {
  return createAgentWith(defineAgent({ id, model: 'any', tools }), {
    provider: createScriptedProvider(script),
    env: {},
  });
}

const look = defineTool({
  name: 'look',
  description: 'Looks.',
  inputSchema: z.object({}),
  effect: 'read',
  execute: () => 'seen',
});

test('agents of this process are children, with their costs and calls', async () => {
  const looking = agent('looking', callsTool('look', {}, 'I saw it.'), [look]);
  const failing = agent('failing', () => ({ error: { kind: 'auth' } }));
  const children = [childOf(looking, 'Look.'), childOf(failing, 'Fail.')];
  const result = await looking.fanOut({ children, perBudget: { toolCalls: 5 } });
  expect(result.output).toBe('I saw it.');
  expect(result.children[0]).toMatchObject({ status: 'completed', toolCalls: 1 });
  expect(result.children[0]?.usage.total).toBeGreaterThan(0);
  expect(result.children[1]).toMatchObject({ status: 'failed', error: { code: 'provider_auth' } });
  const none = await looking.fanOut({ children, perBudget: { toolCalls: 0 } });
  expect(statusesOf(none)).toEqual(['budget_exceeded', 'failed']);
});

test('the answer of a run will do as the answer of a child, unless tool calls have to be counted', async () => {
  const activeAgent = agent('activeAgent', always('Hello.'));
  const children = [{ agentId: 'activeAgent', invoke: (): Promise<RunOutcomeView> => activeAgent.run('Speak.') }];
  expect((await runFanOut({ children })).output).toBe('Hello.');
  const counted = await runFanOut({ children, perBudget: { toolCalls: 3 } });
  expect(counted.children[0]).toMatchObject({ status: 'failed', error: { code: 'validation' } });
  expect(counted.children[0]?.usage.total).toBeGreaterThan(0);
});

test('a run that would wait for a person has failed as a child', async () => {
  const gated = { ...look, needsApproval: () => true };
  const asking = agent('asking', callsTool('look'), [gated]);
  const { children } = await runFanOut({ children: [childOf(asking, 'Look.')] });
  expect(children[0]).toMatchObject({
    status: 'failed',
    error: { code: 'internal', message: 'the run is suspended, which a fan-out does not wait for' },
  });
});

test('an agent of this process is cancelled with its fan-out', async () => {
  const stop = new AbortController();
  const stopped = Promise.withResolvers<void>();
  const slow = agent('slow', (_, signal) => {
    stop.abort();
    signal.addEventListener('abort', () => stopped.resolve());
    return new Promise((resolve) => signal.addEventListener('abort', () => resolve({ text: 'late' })));
  });
  const result = await runFanOut({ children: [childOf(slow, 'Go.')] }, { signal: stop.signal });
  expect(statusesOf(result)).toEqual(['cancelled']);
  await stopped.promise;
});

test('what a child says in place of an answer counts as its answer, as in a run', async () => {
  const error = { code: 'provider_unavailable', message: 'no model answered', retryable: true } as const;
  const run = { runId: newRunId(0), costMicrocents: 0, steps: 1 };
  const views: RunOutcomeView[] = [
    { ...run, status: 'degraded', text: 'No model answered.' },
    { ...run, status: 'degraded', text: 'Nor here.', error },
    { ...run, status: 'blocked', text: '' },
  ];
  const children = views.map((view, index) => ({
    agentId: `c${index}`,
    invoke: async () => await Promise.resolve(view),
  }));
  const result = await runFanOut({ children, mergeStrategy: { kind: 'concat', separator: '|' } });
  expect(result.output).toBe('No model answered.|Nor here.');
  expect(result.children.map(({ status }) => status)).toEqual(['completed', 'completed', 'failed']);
  expect(result.children[1]).not.toHaveProperty('error');
});
