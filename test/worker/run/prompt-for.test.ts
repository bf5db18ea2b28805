import { expect, test } from 'vitest';
import { z } from 'zod';
import { systemClock } from '../../../src/shared/base/clock.ts';
import { silentLog } from '../../../src/shared/base/log.ts';
import { Redactor } from '../../../src/shared/base/redact.ts';
import type { TaskDefinition } from '../../../src/shared/contract/orchestration/task.ts';
import { createAgent } from '../../../src/worker/index.ts';
import type { LlmRequest } from '../../../src/worker/llm/provider.ts';
import { createScriptedProvider, type ScriptedAnswer } from '../../../src/worker/llm/backends/scripted.ts';
import type { PromptContext } from '../../../src/worker/prompt/system-prompt.ts';
import { defineAgent, type AgentSource } from '../../../src/worker/agents/define-agent.ts';
import { loadedFrom } from '../../../src/worker/agents/loaded-agent.ts';
import type { RunDeps, OpenRun } from '../../../src/worker/run/run-context.ts';
import { systemFor } from '../../../src/worker/run/prompt-for.ts';
import { defineTool } from '../../../src/worker/tools/define.ts';
import { makeJobs } from './job-world.ts';

const tasks = new Map<string, TaskDefinition>([
  ['audit', { id: 'audit', title: 'Audit the books', description: 'All of them.' }],
  ['sort', { id: 'sort', title: 'Sort', description: '' }],
]);
const look = defineTool({
  name: 'look',
  description: 'Looks.',
  effect: 'read',
  inputSchema: z.object({}),
  execute: () => 'seen',
});

function makeWorld(source: Partial<AgentSource>, answers: readonly ScriptedAnswer[] = [], more: Partial<RunDeps> = {}) {
  const requests: LlmRequest[] = [];
  const provider = createScriptedProvider((request) => {
    requests.push(request);
    return answers[requests.length - 1] ?? { text: 'Done.' };
  });
  const agent = defineAgent({ id: 'clerk', model: 'm', instructions: 'You are a clerk.', ...source });
  const deps = { loadTask: (id: string) => tasks.get(id), ...more };
  return { requests, agent, ...makeJobs(agent, provider, 1_000, deps) };
}

const systems = ({ messages }: LlmRequest) =>
  messages.flatMap((message) => (message.role === 'system' ? [message.content] : []));

test('what a builder makes is the whole system message, and it gets facts of the run', async () => {
  const contexts: PromptContext[] = [];
  const instructions = (_: unknown, context: PromptContext) => {
    contexts.push(context);
    return ' X ';
  };
  const tools = {
    log: silentLog,
    workspaceOf: () => '/files/clerk',
    directoriesOf: () => ['/files/a', '/files/b'],
  };
  const world = makeWorld({ instructions }, [], { tools });
  const runId = world.submit({ input: 'Hi', task: 'audit', thread: 't1', overrides: { background: true } });
  expect(await world.deliver(runId)).toEqual({ kind: 'ended', status: 'completed' });
  expect(world.requests[0]?.messages).toEqual([
    { role: 'system', content: ' X ' },
    { role: 'user', content: 'Hi' },
  ]);
  expect(contexts).toEqual([
    {
      cwd: '/files/clerk',
      directories: ['/files/a', '/files/b'],
      task: tasks.get('audit'),
      background: true,
      threadId: 't1',
    },
  ]);
});

test('a builder gets no absent facts', async () => {
  const contexts: PromptContext[] = [];
  const world = makeWorld({ instructions: (_, context) => `${contexts.push(context)}` });
  await world.deliver(world.submit({ input: 'Hi' }));
  expect(contexts).toEqual([{ directories: [], background: false }]);
});

test('without a builder the prompt is the instructions and the task, in the background as in front', async () => {
  const world = makeWorld({});
  await world.deliver(world.submit({ input: 'Hi', task: 'audit' }));
  await world.deliver(world.submit({ input: 'Hi', task: 'audit', overrides: { background: true } }));
  const expected = ['You are a clerk.\n\n# Task: Audit the books\n\nAll of them.'];
  expect(world.requests.map(systems)).toEqual([expected, expected]);
});

test('the leading system message stays the same over ten steps, and what comes later is a message of its own', async () => {
  let built = 0;
  const steps = Array.from({ length: 9 }, () => ({ toolCalls: [{ name: 'look' }] }));
  const world = makeWorld({ instructions: () => `Built ${++built} times.`, tools: [look] }, steps);
  await world.deliver(world.submit({ input: 'Hi' }));
  expect(world.requests).toHaveLength(10);
  expect(new Set(world.requests.map((request) => systems(request)[0]))).toEqual(new Set(['Built 1 times.']));
  expect(world.requests.map((request) => systems(request).length)).toEqual([1, ...Array(9).fill(2)]);
  const roles = world.requests[1]?.messages.map(({ role }) => role);
  expect(roles).toEqual(['system', 'system', 'user', 'assistant', 'tool']);
});

test('a worker that takes the run up later sends what the builder made at first', async () => {
  let built = 0;
  const instructions = async () => `Built ${++built} times.`;
  const gated = { ...look, needsApproval: true };
  const answers = [{ toolCalls: [{ name: 'look' }] }];
  const world = makeWorld({ instructions, tools: [gated] }, answers);
  const runId = world.submit({ input: 'Hi' });
  expect(await world.deliver(runId)).toEqual({ kind: 'suspended' });
  const [{ id: toolCallId } = { id: '' }] = (await world.load(runId))?.pending ?? [];
  world.ports.decide(runId, { approvals: [{ toolCallId, granted: true }] });
  await world.deliver(runId);
  expect(world.requests).toHaveLength(2);
  expect(built).toBe(1);
  expect(systems(world.requests[1] as LlmRequest)[0]).toBe(systems(world.requests[0] as LlmRequest)[0]);
});

test('each agent that a run is handed to begins with a prompt of its own, and keeps it', async () => {
  const built: string[] = [];
  const agentOf = (id: string, other: string) =>
    defineAgent({
      id,
      model: 'm',
      instructions: () => `${id}, ${built.push(id)}.`,
      handoffs: [other],
      tools: [{ ...look, needsApproval: true }],
    });
  const agents = new Map(
    [agentOf('clerk', 'boss'), agentOf('boss', 'clerk')].map((agent) => [agent.definition.id, loadedFrom(agent)]),
  );
  const waiting = { toolCalls: [{ name: 'look' }] };
  const to = (id: string) => ({ toolCalls: [{ name: `transfer_to_${id}` }] });
  const world = makeWorld({}, [to('boss'), waiting, to('clerk'), waiting], {
    agents,
    tools: { log: silentLog, agents: () => agents },
  });
  const node = { type: 'agent', id: 'n', prompt_template: 'Go.', system_prompt_append: 'Be brief.' };
  const runId = world.submit({ input: '', node });
  for (let wait = 0; wait < 2; wait++) {
    expect(await world.deliver(runId)).toEqual({ kind: 'suspended' });
    const [{ id: toolCallId } = { id: '' }] = (await world.load(runId))?.pending ?? [];
    world.ports.decide(runId, { approvals: [{ toolCallId, granted: true }] });
  }
  expect(await world.deliver(runId)).toMatchObject({ status: 'completed' });
  const prompts = ['clerk, 1.\n\nBe brief.', 'boss, 2.', 'boss, 2.', 'clerk, 3.', 'clerk, 3.'];
  expect(world.requests.map((request) => systems(request)[0])).toEqual(prompts);
});

test.each([
  ['throws', () => Promise.reject(new Error('secret words')), 'internal', 'could not be built'],
  ['answers no text', () => 7 as never, 'validation', 'is no text'],
  ['answers too much', () => 'x'.repeat(200_001), 'validation', 'more than 200000 characters'],
  ['refers to secrets', () => 'Use {{ secrets.key }}.', 'validation', 'secrets'],
])('a builder that %s fails the run before any model is called', async (_, instructions, code, words) => {
  const world = makeWorld({ instructions });
  const runId = world.submit({ input: 'Hi' });
  expect(await world.deliver(runId)).toMatchObject({ kind: 'ended', status: 'failed' });
  const { error } = (await world.load(runId)) ?? {};
  expect(error).toMatchObject({ code, message: expect.stringContaining(words) as string });
  expect(error?.message).not.toContain('secret words');
  expect(world.requests).toEqual([]);
});

test('a builder that does not answer is not waited for without end', async () => {
  const begun = Promise.withResolvers<void>();
  const instructions = () => {
    begun.resolve();
    return new Promise<never>(() => {});
  };
  const world = makeWorld({ instructions });
  const runId = world.submit({ input: 'Hi' });
  const delivered = world.deliver(runId);
  await begun.promise;
  await world.clock.pass(30_000);
  await world.clock.pass(50);
  expect(await delivered).toMatchObject({ status: 'failed' });
  expect((await world.load(runId))?.error?.message).toContain('was not there within 30000 ms');
});

test('a run with a task that there is not fails with validation', async () => {
  const world = makeWorld({});
  const runId = world.submit({ input: 'Hi', task: 'nope' });
  expect(await world.deliver(runId)).toMatchObject({ kind: 'ended', status: 'failed' });
  expect((await world.load(runId))?.error).toMatchObject({ code: 'validation', message: 'there is no task nope' });
  expect(world.requests).toEqual([]);
});

test('the task of a thread is that of its runs, as it was when they began, unless a run names its own', async () => {
  const gated = { ...look, needsApproval: true };
  const waiting = { toolCalls: [{ name: 'look' }] };
  const world = makeWorld({ instructions: '', tools: [gated] }, [{ text: 'Hello.' }, waiting]);
  const { threads } = world.ports;
  const first = world.submit({ input: 'Hi', thread: 't' });
  await world.deliver(first);
  const { tenant = '' } = (await world.load(first)) ?? {};
  await threads.update(tenant, 't', { taskId: 'audit' });
  const second = world.submit({ input: 'Begin', thread: 't' });
  expect(await world.deliver(second)).toEqual({ kind: 'suspended' });
  await threads.update(tenant, 't', { taskId: 'sort' });
  const [{ id: toolCallId } = { id: '' }] = (await world.load(second))?.pending ?? [];
  world.ports.decide(second, { approvals: [{ toolCallId, granted: true }] });
  await world.deliver(second);
  await world.deliver(world.submit({ input: 'Go on', thread: 't' }));
  await world.deliver(world.submit({ input: 'Go on', thread: 't', task: 'audit' }));
  const audit = '# Task: Audit the books\n\nAll of them.';
  const seen = world.requests.map((request) => systems(request)[0]);
  expect(seen).toEqual([undefined, audit, audit, '# Task: Sort', audit]);
});

test('a credential of this process gets neither into the prompt nor into the journal', async () => {
  const { agent } = makeWorld({ instructions: () => 'The key is hunter2-secret.' });
  const kept: unknown[] = [];
  const run = {
    record: { request: { agent: 'clerk', input: 'Hi' } },
    assignment: {},
    state: {},
    signals: { signal: new AbortController().signal },
    writer: { commit: async (write: unknown) => void kept.push(write) },
  };
  const deps = { tools: {}, ports: { clock: systemClock, redactor: new Redactor(['hunter2-secret']) } };
  const text = await systemFor(run as unknown as OpenRun, { ...agent, file: '' }, deps as unknown as RunDeps);
  expect(text).toMatch(/^The key is \S+\.$/);
  expect(JSON.stringify([text, kept])).not.toContain('hunter2');
  expect(kept).toMatchObject([{ entries: [{ t: 'agent_started', model: 'm', prompt: text }] }]);
});

test('an agent in this process works on tasks, and knows when it runs in the background', async () => {
  const requests: LlmRequest[] = [];
  const provider = createScriptedProvider((request) => {
    requests.push(request);
    return { text: 'Done.' };
  });
  const agent = createAgent(defineAgent({ id: 'clerk', model: 'm' }), {
    provider,
    env: {},
    loadTask: (id) => tasks.get(id),
  });
  await agent.run('Hi', { task: 'audit', overrides: { background: true } });
  expect(requests.map(systems)).toEqual([['# Task: Audit the books\n\nAll of them.']]);
  expect(requests[0]?.tools?.map(({ name }) => name)).toEqual(['notify_user']);
  expect((await agent.run('Hi', { task: 'nope' })).error).toMatchObject({ code: 'validation' });
});
