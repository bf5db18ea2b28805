import { expect, test, vi } from 'vitest';
import { z } from 'zod';
import type { RunEvent } from '../../../src/shared/contract/event.ts';
import {
  createRunner,
  defineAgent,
  defineTool,
  runnerDefaults,
  type RunnerCallbacks,
} from '../../../src/worker/index.ts';
import type { LlmRequest } from '../../../src/worker/llm/provider.ts';
import { createScriptedProvider, type ModelScript } from '../../../src/worker/llm/backends/scripted.ts';
import type { AgentSource } from '../../../src/worker/agents/define-agent.ts';
import type { CapabilityResolver } from '../../../src/worker/tools/capabilities.ts';

interface Given {
  readonly script?: ModelScript;
  readonly agent?: Partial<AgentSource>;
  readonly others?: readonly AgentSource[];
  readonly capabilities?: Readonly<Record<string, CapabilityResolver>>;
}

function makeWorld({ script = () => ({ text: 'It was sent.' }), agent, others = [], capabilities }: Given = {}) {
  const seen: LlmRequest[] = [];
  const provider = createScriptedProvider((request, signal) => {
    seen.push(request);
    return script(request, signal);
  });
  const support = defineAgent({ id: 'support', model: 'gpt-5.2-mini', instructions: 'Be brief.', ...agent });
  const defaults = runnerDefaults({
    agents: [support, ...others.map(defineAgent)],
    provider,
    env: {},
    ...(capabilities && { capabilities }),
  });
  return { seen, defaults, runner: createRunner(defaults) };
}

const texts = ({ messages }: LlmRequest) =>
  messages.map((message) =>
    message.role === 'assistant'
      ? message.parts.map((part) => (part.type === 'text' ? part.text : `[${part.type}]`)).join('')
      : message.content,
  );

test('a conversation goes on in the session of its thread, and is kept there', async () => {
  const { seen, defaults, runner } = makeWorld();
  expect(await runner.runAgent('support', 'talk', 'Where is order 7?')).toEqual({ text: 'It was sent.' });
  await runner.runAgent('support', 'talk', 'When?');
  await runner.runAgent('support', 'elsewhere', 'Hello?');
  expect(seen.map(texts)).toEqual([
    ['Be brief.', 'Where is order 7?'],
    ['Be brief.', 'Where is order 7?', 'It was sent.', 'When?'],
    ['Be brief.', 'Hello?'],
  ]);
  expect(await defaults.threads.messages('talk')).toEqual([
    { role: 'user', text: 'Where is order 7?' },
    { role: 'assistant', text: 'It was sent.' },
    { role: 'user', text: 'When?' },
    { role: 'assistant', text: 'It was sent.' },
  ]);
  expect(defaults.usage.of('support').byModel['gpt-5.2-mini']?.attemptCount).toBe(3);
  expect(defaults.threads.events('talk').map(({ type }) => type)).not.toContain('text.delta');
});

const look = defineTool({
  name: 'look',
  description: 'Looks.',
  effect: 'read',
  inputSchema: z.strictObject({ order: z.string() }),
  execute: () => 'shipped',
});

test('every callback stands for exactly one event, which names agent and thread', async () => {
  const calls: [name: string, ...unknown[]][] = [];
  const events: RunEvent[] = [];
  const note =
    (name: string) =>
    (...args: unknown[]) =>
      void calls.push([name, ...args]);
  const { runner } = makeWorld({
    script: (request) =>
      request.messages.at(-1)?.role === 'tool'
        ? { reasoning: 'hm', text: 'It was sent.' }
        : { toolCalls: [{ name: 'look', args: { order: '7' } }] },
    agent: { tools: [look], capabilities: ['office'] },
    capabilities: {
      office: ({ callbacks }) => {
        callbacks.sendFile({ path: 'a.pdf', fileType: 'pdf' });
        callbacks.shareNote({ title: 'Plan', slug: 'plan' });
        callbacks.changePin();
        callbacks.notifyUser('Done.');
      },
    },
  });
  const callbacks: RunnerCallbacks = {
    onThinking: note('onThinking'),
    onAssistantMessage: note('onAssistantMessage'),
    onToolUse: note('onToolUse'),
    onToolUseSummary: note('onToolUseSummary'),
    onResponse: note('onResponse'),
    onFileSend: note('onFileSend'),
    onShareNote: note('onShareNote'),
    onPinChange: note('onPinChange'),
    onNotifyUser: note('onNotifyUser'),
    onEvent: (event) => void events.push(event),
  };
  await runner.runAgent('support', 'talk', 'Where is order 7?', callbacks);
  const eventOf: Record<string, RunEvent['type']> = {
    onThinking: 'agent.thinking',
    onAssistantMessage: 'text.complete',
    onToolUse: 'tool.execute.start',
    onResponse: 'agent.response',
    onFileSend: 'capability.file_sent',
    onShareNote: 'capability.note_shared',
    onPinChange: 'capability.pin_changed',
    onNotifyUser: 'capability.user_notified',
  };
  const called = calls.map(([name]) => name).filter((name) => name !== 'onToolUseSummary');
  expect(called.toSorted()).toEqual(Object.keys(eventOf).toSorted());
  for (const type of Object.values(eventOf)) {
    const ofType = events.filter((event) => event.type === type);
    expect(ofType, type).toMatchObject([{ agentId: 'support', threadId: 'talk' }]);
    expect(ofType[0]).not.toHaveProperty('channel');
  }
  expect(calls).toContainEqual(['onToolUse', 'look', { order: '7' }, expect.stringContaining('look')]);
  // Of the step that called a tool, and not of the one that answered.
  expect(calls.filter(([name]) => name === 'onToolUseSummary')).toEqual([
    ['onToolUseSummary', 'look({"order":"7"}): done'],
  ]);
  expect(calls).toContainEqual(['onResponse', 'support', 'talk', 'It was sent.']);
  expect(calls).toContainEqual(['onNotifyUser', 'support', 'talk', 'Done.']);
});

test('an error is in the thread without its secrets, is reported once, and the next turn goes on', async () => {
  let broken = true;
  const { defaults, runner } = makeWorld({
    script: () =>
      broken ? { error: { kind: 'bad_request', message: 'no: sk-abcdefgh12345' } } : { text: 'It was sent.' },
  });
  const onError = vi.fn<NonNullable<RunnerCallbacks['onError']>>();
  await expect(runner.runAgent('support', 'talk', 'Hi', { onError })).rejects.toMatchObject({ code: 'validation' });
  expect(onError).toHaveBeenCalledExactlyOnceWith('support', 'talk', 'no: [redacted]');
  broken = false;
  await runner.runAgent('support', 'talk', 'Again', { onError });
  expect((await defaults.threads.messages('talk')).map(({ text }) => text)).toEqual([
    'Hi',
    '(error: no: [redacted])',
    'Again',
    'It was sent.',
  ]);
});

test('a run that is stopped leaves a note in its thread', async () => {
  const abort = new AbortController();
  const { defaults, runner } = makeWorld({ script: () => ({ text: 'and on and on and on', deltaMs: 20 }) });
  const onError = vi.fn<NonNullable<RunnerCallbacks['onError']>>();
  const onEvent = ({ type }: RunEvent) => void (type === 'text.delta' && abort.abort());
  const run = runner.runAgent('support', 'talk', 'Go on.', { onError, onEvent }, {}, abort);
  expect(await run).toEqual({ text: '' });
  expect(onError).not.toHaveBeenCalled();
  expect((await defaults.threads.messages('talk')).at(-1)).toEqual({ role: 'assistant', text: '(stopped by user)' });
});

test('the prompt is what the instructions of the agent make of the task of the thread, and nothing more', async () => {
  const task = { id: 'audit', title: 'Audit', description: 'Check the orders.' };
  const agents = [
    defineAgent({ id: 'support', model: 'gpt-5.2-mini', instructions: 'Be brief.' }),
    defineAgent({
      id: 'built',
      model: 'gpt-5.2-mini',
      instructions: ({ id }, { background, directories }) => `${id} ${background} ${directories.join()}`,
    }),
  ];
  const seen: LlmRequest[] = [];
  const provider = createScriptedProvider((request) => {
    seen.push(request);
    return { text: 'yes' };
  });
  const loadTask = (id: string) => (id === 'audit' ? task : undefined);
  const defaults = runnerDefaults({ agents, provider, env: {}, loadTask });
  const { runAgent } = createRunner({ ...defaults, workspace: { cwd: '/work', directories: ['/data'] } });
  await runAgent('support', 'talk', 'Hi');
  await defaults.threads.update('talk', { taskId: 'audit' });
  await runAgent('support', 'talk', 'Go on');
  await defaults.threads.update('talk', { taskId: 'gone' });
  await expect(runAgent('support', 'talk', 'Go on')).rejects.toThrow('there is no task gone');
  await runAgent('built', 'other', 'Hi', {}, { background: true });
  expect(seen.map((request) => texts(request)[0])).toEqual([
    'Be brief.',
    'Be brief.\n\n# Task: Audit\n\nCheck the orders.',
    'built true /data',
  ]);
});

test('an empty answer is kept and marked', async () => {
  const { defaults, runner } = makeWorld({ script: () => ({ text: '' }) });
  expect(await runner.runAgent('support', 'talk', 'Hi')).toEqual({ text: '' });
  expect((await defaults.threads.messages('talk')).at(-1)).toEqual({
    role: 'assistant',
    text: '',
    emptyResponse: true,
  });
});

test('a run in the background is marked in its events, and nothing else changes', async () => {
  const events: RunEvent[] = [];
  const onResponse = vi.fn<NonNullable<RunnerCallbacks['onResponse']>>();
  const { runner } = makeWorld();
  const callbacks = { onResponse, onEvent: (event: RunEvent) => void events.push(event) };
  await runner.runAgent('support', 'talk', 'Hi', callbacks, { background: true });
  expect(new Set(events.map(({ background }) => background))).toEqual(new Set([true]));
  expect(onResponse).toHaveBeenCalledOnce();
});

test('model and turn limit of one run do not change the agent', async () => {
  const { seen, defaults, runner } = makeWorld({
    script: (request) =>
      request.messages.at(-1)?.role === 'tool'
        ? { text: 'done' }
        : { toolCalls: [{ name: 'look', args: { order: '7' } }] },
    agent: { tools: [look] },
  });
  const before = JSON.stringify(defaults.agents.load('support'));
  await runner.runAgent('support', 'talk', 'Hi', {}, { model: 'gpt-5.2-nano', maxTurns: 5 });
  await runner.runAgent('support', 'talk', 'Hi');
  expect(seen.map(({ model }) => model)).toEqual(['gpt-5.2-nano', 'gpt-5.2-nano', 'gpt-5.2-mini', 'gpt-5.2-mini']);
  expect(JSON.stringify(defaults.agents.load('support'))).toBe(before);
});

test('an agent asks another one in a thread of its own, which remembers', async () => {
  const search: AgentSource = { id: 'search', model: 'gpt-5.2-mini', instructions: 'You search.' };
  const { seen, defaults, runner } = makeWorld({
    script: ({ messages }) => {
      if (messages[0]?.role === 'system' && messages[0].content === 'You search.') return { text: 'Found 7.' };
      const last = messages.at(-1);
      return last?.role === 'tool'
        ? { text: `Answer: ${last.content}` }
        : { toolCalls: [{ name: 'run_agent', args: { agent: 'search', message: 'Find 7.' } }] };
    },
    agent: { capabilities: ['agents'] },
    others: [search],
  });
  const onResponse = vi.fn<NonNullable<RunnerCallbacks['onResponse']>>();
  await runner.runAgent('support', 'talk', 'Where?', { onResponse });
  const { text } = await runner.runAgent('support', 'talk', 'And now?', { onResponse });
  expect(text).toBe('Answer: Found 7.');
  expect(onResponse.mock.calls.map(([agentId]) => agentId)).toEqual(['support', 'support']);
  expect((await defaults.threads.messages('talk.search')).map(({ text }) => text)).toEqual([
    'Find 7.',
    'Found 7.',
    'Find 7.',
    'Found 7.',
  ]);
  expect(seen.map(texts)).toContainEqual(['You search.', 'Find 7.', 'Found 7.', 'Find 7.']);
  const results = seen.flatMap(({ messages }) => messages.filter(({ role }) => role === 'tool'));
  expect(results).toContainEqual(
    expect.objectContaining({ flow: { sources: [{ name: 'agent:search', trust: 'external' }] } }),
  );
});

test('a call that needs a person is denied here, and the thread is free again', async () => {
  const pay = defineTool({
    name: 'pay',
    description: 'Pays.',
    inputSchema: z.strictObject({}),
    needsApproval: true,
    execute: () => 'paid',
  });
  const { runner } = makeWorld({
    script: (request) =>
      request.messages.at(-1)?.role === 'tool' ? { text: 'I may not.' } : { toolCalls: [{ name: 'pay' }] },
    agent: { tools: [pay] },
  });
  expect(await runner.runAgent('support', 'talk', 'Pay.')).toEqual({ text: 'I may not.' });
  expect(await runner.runAgent('support', 'talk', 'Pay.')).toEqual({ text: 'I may not.' });
});

test('a run that is out of money fails, and the thread is free again', async () => {
  const { runner } = makeWorld({ agent: { budget: { maxCostMicrocents: 1, onExceed: 'pause_for_approval' } } });
  await expect(runner.runAgent('support', 'talk', 'Hi')).rejects.toMatchObject({ code: 'budget_exceeded' });
  await expect(runner.runAgent('support', 'talk', 'Hi')).rejects.toMatchObject({ code: 'budget_exceeded' });
});

test('a capability, an agent and a thread that are not there or not theirs are named in the error', async () => {
  const { runner } = makeWorld({ agent: { capabilities: ['crm'] }, others: [{ id: 'other', model: 'm' }] });
  await expect(runner.runAgent('unknown', 'talk', 'Hi')).rejects.toThrow(
    'there is no agent unknown; known are support',
  );
  await expect(runner.runAgent('support', 't', 'Hi')).rejects.toMatchObject({ code: 'unknown_capability' });
  await expect(runner.runAgent('other', 't', 'Hi')).rejects.toThrow('thread t belongs to agent support');
});
