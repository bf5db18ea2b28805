import { expect, test, vi } from 'vitest';
import { RunError } from '../../../src/shared/base/errors.ts';
import type { RunEvent } from '../../../src/shared/contract/event.ts';
import { emptyRunUsage } from '../../../src/shared/contract/money.ts';
import { ArrivalLock } from '../../../src/worker/local/runner-defaults.ts';
import { createRunner } from '../../../src/worker/local/runner.ts';
import type {
  Engine,
  ResolverContext,
  RunnerAgent,
  RunnerCallbacks,
  RunnerCollaborators,
  RunnerManifest,
  RunnerMessage,
} from '../../../src/worker/local/runner-ports.ts';

type Call = readonly [step: string, ...facts: unknown[]];

const agent: RunnerAgent = {
  id: 'support',
  model: 'gpt-5.2-mini',
  capabilities: ['memory', 'notes'],
  subagents: ['search'],
  trust: 'controlled',
};
const thinking: RunEvent = {
  v: 1,
  runId: 'R',
  sequenceNumber: 1,
  timestamp: '2026-01-02T03:04:05.000Z',
  type: 'agent.thinking',
};

/** Fakes that take note of what is asked of them, in order. `broken` names the one that throws. */
function makeWorld(given: Partial<RunnerCollaborators<RunnerAgent, string>> = {}, broken?: string) {
  const calls: Call[] = [];
  const lock = new ArrivalLock();
  const manifest: { sessionId?: string; taskId?: string } = { sessionId: 's-1', taskId: 'task-7' };
  const contexts: ResolverContext<RunnerAgent>[] = [];
  const note = (step: string, ...facts: unknown[]) => {
    calls.push([step, ...facts]);
    if (step === broken) throw new Error(`${step} is broken, key sk-abcdefgh12345`);
  };
  const collaborators: RunnerCollaborators<RunnerAgent, string> = {
    threads: {
      async acquire(threadId, agentId, signal) {
        const release = await lock.enter(threadId, signal);
        if (!release) return undefined;
        calls.push(['lock', threadId, agentId]);
        return {
          async manifest() {
            note('manifest');
            return { ...manifest } satisfies RunnerManifest;
          },
          append: async ({ role, ...message }) => note(`append ${role}`, message),
          record: (event) => note('record', event.type),
          async update(change) {
            note('update', change);
            Object.assign(manifest, change);
          },
          async [Symbol.asyncDispose]() {
            calls.push(['unlock', threadId]);
            release();
          },
        };
      },
    },
    agents: {
      load(agentId) {
        note('agent', agentId);
        return agent;
      },
    },
    tasks: {
      async get(taskId) {
        note('task', taskId);
        return 'the task';
      },
    },
    buildSystemPrompt(of, cwd, directories, about) {
      note('prompt', of.id, cwd, directories, about);
      return 'You answer briefly.';
    },
    capabilities: {
      async resolve(names, context) {
        note('capabilities', names);
        contexts.push(context);
        return { memory: { url: 'm' }, notes: { url: 'n' } };
      },
    },
    injections: {
      resolve(overrides) {
        note('injections', overrides);
        return { notes: { url: 'injected' } };
      },
    },
    engine: {
      async run(...args) {
        note('engine', ...args);
        return { text: 'It was sent.', sessionId: 's-2', usage: emptyRunUsage };
      },
    },
    usage: { record: async (...args) => note('usage', ...args) },
    postRun: { dispatch: (...args) => note('postRun', ...args) },
    scrub: (error) => String(error instanceof Error ? error.message : error).replace(/sk-\S+/, '[redacted]'),
    workspace: { cwd: '/work', directories: ['/data'] },
    ...given,
  };
  const callbacks: RunnerCallbacks = {
    onResponse: (...args) => void calls.push(['onResponse', ...args]),
    onError: (...args) => void calls.push(['onError', ...args]),
  };
  const { runAgent } = createRunner(collaborators);
  return {
    calls,
    contexts,
    manifest,
    callbacks,
    runAgent,
    steps: () => calls.map(([step]) => step),
    callsOf: (step: string) => calls.filter(([name]) => name === step).map(([, ...facts]) => facts),
    /** Is the thread free? */
    isFree: async (threadId = 't') => (await lock.enter(threadId, AbortSignal.timeout(100))) !== undefined,
  };
}

const inOrder = [
  'lock',
  'agent',
  'manifest',
  'append user',
  'task',
  'prompt',
  'capabilities',
  'injections',
  'engine',
  'append assistant',
  'update',
  'usage',
  'onResponse',
  'postRun',
  'unlock',
];

test('a turn is a fixed sequence, from the lock to its release', async () => {
  const world = makeWorld();
  expect(await world.runAgent('support', 't', 'Where is order 7?', world.callbacks)).toEqual({ text: 'It was sent.' });
  expect(world.steps()).toEqual(inOrder);
  expect(world.callsOf('append user')).toEqual([[{ text: 'Where is order 7?' }]]);
  expect(world.callsOf('append assistant')).toEqual([[{ text: 'It was sent.' }]]);
  expect(world.callsOf('update')).toEqual([[{ sessionId: 's-2' }]]);
  expect(world.callsOf('usage')).toEqual([['support', 't', emptyRunUsage]]);
  expect(world.callsOf('onResponse')).toEqual([['support', 't', 'It was sent.']]);
  expect(world.callsOf('postRun')).toEqual([['support', 't']]);
});

test('the engine gets what the others made, and injected servers win', async () => {
  const world = makeWorld();
  const abort = new AbortController();
  await world.runAgent('support', 't', 'Hi', {}, { maxTurns: 3 }, abort);
  const [[message, options, trust, sessionId, callbacks, given] = []] = world.callsOf('engine');
  expect([message, trust, sessionId, given]).toEqual(['Hi', 'controlled', 's-1', abort]);
  expect(options).toEqual({
    cwd: '/work',
    directories: ['/data'],
    systemPrompt: 'You answer briefly.',
    model: 'gpt-5.2-mini',
    maxTurns: 3,
    agents: ['search'],
    mcpServers: { memory: { url: 'm' }, notes: { url: 'injected' } },
  });
  expect(Object.keys(callbacks as object)).toEqual(['onEvent']);
  expect(world.callsOf('prompt')).toEqual([
    ['support', '/work', ['/data'], { task: 'the task', background: undefined }],
  ]);
});

test('overrides are for one run and leave the agent as it is', async () => {
  const world = makeWorld();
  const before = structuredClone(agent);
  await world.runAgent('support', 't', 'Hi', {}, { model: 'other', maxTurns: 1, background: true });
  await world.runAgent('support', 't', 'Hi');
  const models = world.callsOf('engine').map(([, options]) => options);
  expect(models).toMatchObject([
    { model: 'other', maxTurns: 1 },
    { model: 'gpt-5.2-mini', maxTurns: undefined },
  ]);
  expect(agent).toEqual(before);
  expect(world.contexts.map(({ background }) => background)).toEqual([true, false]);
});

test('more in the answer of an engine changes nothing', async () => {
  const engine: Engine = {
    run: async () => ({ text: 'a', sessionId: 's', usage: emptyRunUsage, model: 'x', cost: 3 }) as never,
  };
  const world = makeWorld({ engine });
  expect(await world.runAgent('support', 't', 'Hi', world.callbacks)).toEqual({ text: 'a' });
  expect(world.callsOf('append assistant')).toEqual([[{ text: 'a' }]]);
});

test.each(inOrder.filter((step) => !['lock', 'unlock', 'onResponse', 'postRun'].includes(step)))(
  'when the step %s fails, the run rejects and the thread is free',
  async (step) => {
    const world = makeWorld({}, step);
    await expect(world.runAgent('support', 't', 'Hi', world.callbacks)).rejects.toThrow(`${step} is broken`);
    expect(await world.isFree()).toBe(true);
    expect(world.manifest.sessionId).toBe(step === 'usage' ? 's-2' : 's-1');
  },
);

test('a callback that throws is not caught, and the thread is free', async () => {
  const world = makeWorld();
  const onResponse = () => {
    throw new Error('the screen is gone');
  };
  await expect(world.runAgent('support', 't', 'Hi', { onResponse })).rejects.toThrow('the screen is gone');
  expect(await world.isFree()).toBe(true);
});

test.each<[string, () => Promise<void>]>([
  ['throws', () => Promise.reject(new Error('no embedder'))],
  [
    'throws at once',
    () => {
      throw new Error('no embedder');
    },
  ],
  ['hangs', () => new Promise(() => {})],
])('post-run work that %s neither fails nor delays the response', async (_, dispatch) => {
  const world = makeWorld({ postRun: { dispatch } });
  expect(await world.runAgent('support', 't', 'Hi', world.callbacks)).toEqual({ text: 'It was sent.' });
  expect(world.callsOf('onResponse')).toHaveLength(1);
  expect(await world.isFree()).toBe(true);
});

test.each(['task', 'prompt', 'capabilities', 'injections', 'engine'])(
  'an error of %s is in the thread, scrubbed, reported once, and thrown as it is',
  async (step) => {
    const world = makeWorld({}, step);
    const error = `${step} is broken, key [redacted]`;
    await expect(world.runAgent('support', 't', 'Hi', world.callbacks)).rejects.toThrow('key sk-abcdefgh12345');
    expect(world.callsOf('append assistant')).toEqual([[{ text: `(error: ${error})` }]]);
    expect(world.callsOf('onError')).toEqual([['support', 't', error]]);
    expect(world.steps()).not.toContain('update');
    expect(world.steps()).not.toContain('onResponse');
    expect(world.steps().at(-1)).toBe('unlock');
  },
);

test.each<[string, boolean]>([
  ['rejects', true],
  ['resolves all the same', false],
])('an aborted run whose engine %s leaves a note in the thread, and calls nothing', async (_, rejects) => {
  const engine: Engine = {
    async run(_message, _options, _trust, _session, _callbacks, { signal }) {
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
      if (rejects) throw new RunError('cancelled', 'stopped');
      return { text: 'half an answer', sessionId: 's-9' };
    },
  };
  const world = makeWorld({ engine });
  const abort = new AbortController();
  const run = world.runAgent('support', 't', 'Hi', world.callbacks, {}, abort);
  await vi.waitUntil(() => world.steps().includes('injections'));
  abort.abort();
  expect(await run).toEqual({ text: '' });
  expect(world.callsOf('append assistant')).toEqual([[{ text: '(stopped by user)' }]]);
  expect(world.callsOf('update')).toEqual([[{}]]);
  expect(world.steps()).not.toContain('onError');
  expect(world.steps()).not.toContain('onResponse');
  expect(world.manifest.sessionId).toBe('s-1');
});

test('a run that is aborted while it waits for its thread leaves no trace in it', async () => {
  const { promise: go, resolve: open } = Promise.withResolvers<void>();
  const engine: Engine = {
    async run(message) {
      if (message === 'first') await go;
      return { text: message };
    },
  };
  const world = makeWorld({ engine });
  const abort = new AbortController();
  const first = world.runAgent('support', 't', 'first', world.callbacks);
  const second = world.runAgent('support', 't', 'second', world.callbacks, {}, abort);
  const third = world.runAgent('support', 't', 'third', world.callbacks);
  abort.abort();
  expect(await second).toEqual({ text: '' });
  expect(world.callsOf('lock')).toHaveLength(1);
  open();
  expect(await Promise.all([first, third])).toEqual([{ text: 'first' }, { text: 'third' }]);
  expect(world.callsOf('append user')).toEqual([[{ text: 'first' }], [{ text: 'third' }]]);
});

test('an empty answer is kept as it is, and marked', async () => {
  const world = makeWorld({ engine: { run: async () => ({ text: '' }) } });
  expect(await world.runAgent('support', 't', 'Hi', world.callbacks)).toEqual({ text: '' });
  expect(world.callsOf('append assistant')).toEqual([
    [{ text: '', emptyResponse: true } satisfies Omit<RunnerMessage, 'role'>],
  ]);
  expect(world.callsOf('update')).toEqual([[{}]]);
  expect(world.steps()).not.toContain('usage');
  expect(world.callsOf('onResponse')).toEqual([['support', 't', '']]);
});

test('messages of one thread are turns one after the other in the order of arrival; other threads do not wait', async () => {
  const waiting = new Map<string, () => void>();
  const engine: Engine = {
    async run(message) {
      await new Promise<void>((resolve) => waiting.set(message, resolve));
      return { text: message };
    },
  };
  const world = makeWorld({ engine });
  const runs = ['a', 'b', 'c'].map((message) => world.runAgent('support', 't', message));
  const other = world.runAgent('support', 'u', 'x');
  await vi.waitUntil(() => waiting.has('x'));
  waiting.get('x')?.();
  expect(await other).toEqual({ text: 'x' });
  for (const message of ['a', 'b', 'c']) {
    await vi.waitUntil(() => waiting.has(message));
    waiting.get(message)?.();
  }
  expect(await Promise.all(runs)).toEqual([{ text: 'a' }, { text: 'b' }, { text: 'c' }]);
  const own = world.calls.flatMap(([step, facts]) =>
    step === 'append user' || step === 'append assistant' ? [(facts as RunnerMessage).text] : [],
  );
  expect(own.filter((text) => text !== 'x')).toEqual(['a', 'a', 'b', 'b', 'c', 'c']);
});

test('callbacks of the engine are the very ones of the caller, and events are kept on the way', async () => {
  const received: unknown[] = [];
  const callbacks: RunnerCallbacks = {
    onThinking: () => void received.push('thinking'),
    onAssistantMessage: (text) => void received.push(text),
    onToolUse: (...args) => void received.push(args),
    onToolUseSummary: (summary) => void received.push(summary),
    onEvent: (event) => void received.push(event),
  };
  const engine: Engine = {
    async run(_message, _options, _trust, _session, given) {
      const { onEvent, ...rest } = given;
      const { onEvent: _, ...own } = callbacks;
      expect(rest).toEqual(own);
      onEvent(thinking);
      return { text: 'a' };
    },
  };
  const world = makeWorld({ engine });
  await world.runAgent('support', 't', 'Hi', callbacks);
  expect(received).toEqual([thinking]);
  expect(received[0]).toBe(thinking);
  expect(world.callsOf('record')).toEqual([['agent.thinking']]);
});

test('what capabilities report reaches the caller once, with agent and thread, and without a channel', async () => {
  const received: Call[] = [];
  const note =
    (name: string) =>
    (...args: unknown[]) =>
      void received.push([name, ...args]);
  const world = makeWorld({
    engine: {
      async run() {
        const { callbacks } = world.contexts[0] as ResolverContext<RunnerAgent>;
        callbacks.sendFile({ path: 'out/report.pdf', caption: 'The report', fileType: 'pdf' });
        callbacks.shareNote({ title: 'Plan', slug: 'plan' });
        callbacks.changePin();
        callbacks.notifyUser('Done.');
        return { text: 'a' };
      },
    },
  });
  await world.runAgent(
    'support',
    't',
    'Hi',
    {
      onFileSend: note('file'),
      onShareNote: note('note'),
      onPinChange: note('pin'),
      onNotifyUser: note('notify'),
    },
    { background: true },
  );
  expect(received).toEqual([
    ['file', 'support', 't', 'out/report.pdf', 'The report', 'pdf'],
    ['note', 'support', 't', 'Plan', 'plan', undefined],
    ['pin', 'support'],
    ['notify', 'support', 't', 'Done.'],
  ]);
});

/** An agent that asks another one, as deep as it is let. */
function asking(ask: (context: ResolverContext<RunnerAgent>) => Promise<string>) {
  const contexts: ResolverContext<RunnerAgent>[] = [];
  const world = makeWorld({
    capabilities: {
      resolve(_, context) {
        contexts.push(context);
        return {};
      },
    },
    engine: {
      async run(message) {
        const context = contexts.at(-1) as ResolverContext<RunnerAgent>;
        return { text: `${message}: ${await ask(context)}` };
      },
    },
  });
  return { world, contexts };
}

test('an agent that is asked gets the callbacks and the abort of the asking run, and its answer is not delivered', async () => {
  const { world, contexts } = asking(async ({ askAgentDepth, askAgent }) =>
    askAgentDepth === 0 ? (await askAgent('search', 't.search', 'found?')).text : 'yes',
  );
  const onNotifyUser = vi.fn<NonNullable<RunnerCallbacks['onNotifyUser']>>();
  const overrides = { background: true, model: 'other', maxTurns: 2 };
  const { text } = await world.runAgent('support', 't', 'Hi', { ...world.callbacks, onNotifyUser }, overrides);
  expect(text).toBe('Hi: found?: yes');
  expect(world.callsOf('onResponse')).toEqual([['support', 't', 'Hi: found?: yes']]);
  expect(world.callsOf('injections')).toEqual([[overrides], [{ background: true }]]);
  contexts[1]?.callbacks.notifyUser('Found it.');
  expect(onNotifyUser).toHaveBeenCalledExactlyOnceWith('search', 't.search', 'Found it.');
  expect(await world.isFree('t.search')).toBe(true);
});

test('a stop reaches the agents that are asked', async () => {
  const abort = new AbortController();
  const { world } = asking(async ({ askAgentDepth, askAgent }) => {
    if (askAgentDepth === 0) return (await askAgent('search', 't.search', 'found?')).text;
    abort.abort();
    return 'too late';
  });
  expect(await world.runAgent('support', 't', 'Hi', world.callbacks, {}, abort)).toEqual({ text: '' });
  expect(world.callsOf('append assistant')).toEqual([[{ text: '(stopped by user)' }], [{ text: '(stopped by user)' }]]);
});

test('agents ask each other three deep and no deeper', async () => {
  const depths: number[] = [];
  const { world } = asking(async ({ askAgentDepth, askAgent, threadId }) => {
    depths.push(askAgentDepth);
    const below = await askAgent('next', `${threadId}.next`, 'deeper').catch((error: RunError) => ({
      text: error.code,
    }));
    return below.text;
  });
  const { text } = await world.runAgent('support', 't', 'Hi');
  expect(depths).toEqual([0, 1, 2, 3]);
  expect(text).toContain('depth_limit');
});

test('an agent cannot be asked in a thread that a waiting run has locked', async () => {
  const { world } = asking(async ({ askAgent }) => (await askAgent('search', 't', 'found?')).text);
  await expect(world.runAgent('support', 't', 'Hi')).rejects.toMatchObject({ code: 'concurrent_run' });
  expect(await world.isFree()).toBe(true);
});
