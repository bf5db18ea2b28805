import { expect, test } from 'vitest';
import { z } from 'zod';
import type { EventBody } from '../../../src/shared/contract/event.ts';
import { isSummary } from '../../../src/shared/contract/thread/summary-message.ts';
import type { LlmProvider, LlmRequest } from '../../../src/worker/llm/provider.ts';
import { createScriptedProvider, type ModelScript } from '../../../src/worker/llm/backends/scripted.ts';
import { defineAgent, type AgentSource } from '../../../src/worker/agents/define-agent.ts';
import {
  createAgentNodeExecutor,
  type NodeContext,
  type NodeExecutorDeps,
  type NodeOutcome,
} from '../../../src/worker/local/node-executor.ts';
import { defineTool } from '../../../src/worker/tools/define.ts';

const vertex = { type: 'agent', id: 'draft', agent_ref: 'writer', prompt_template: 'About {{ inputs.topic }}.' };
const price = { input: 1_000_000, output: 2_000_000, cached: 0, cacheWrite: 0 };

interface Options {
  readonly script?: ModelScript;
  readonly provider?: Partial<LlmProvider>;
  readonly agent?: Partial<AgentSource>;
  readonly deps?: Partial<NodeExecutorDeps>;
}

function makeExecutor({ script = () => ({ text: 'Done.' }), provider: more, agent, deps }: Options = {}) {
  const requests: LlmRequest[] = [];
  const provider = {
    ...createScriptedProvider((request, signal) => {
      requests.push(request);
      return script(request, signal);
    }),
    ...more,
  };
  const execute = createAgentNodeExecutor({
    resolveProvider: (id) => (id === 'openai' ? provider : undefined),
    price: () => price,
    ...deps,
  });
  const resolvedAgent = defineAgent({ id: 'writer', model: 'm', instructions: 'Be brief.', ...agent });
  const events: EventBody[] = [];
  const run = (own: Partial<NodeContext['vertex']> = {}, more: Partial<NodeContext> = {}): Promise<NodeOutcome> =>
    execute({
      vertex: { ...vertex, resolvedAgent, ...own },
      inputs: { topic: 'tides' },
      emit: (event) => void events.push(event),
      signal: new AbortController().signal,
      ...more,
    });
  return { run, requests, events };
}

test('an agent vertex is run with nothing but providers, and reports tokens, tools and costs only', async () => {
  const usage = { input: 10, output: 5, cached: 0, cacheWrite: 0, total: 15 };
  const look = defineTool({
    name: 'look',
    description: 'Looks.',
    effect: 'read',
    inputSchema: z.object({}),
    execute: () => 'x',
  });
  const { run, requests, events } = makeExecutor({
    script: ({ messages }) =>
      messages.at(-1)?.role === 'tool'
        ? { reasoning: 'Hm.', text: 'Done.', usage }
        : { toolCalls: [{ name: 'look' }], usage },
    agent: { tools: [look] },
  });
  expect(await run()).toEqual({
    kind: 'completed',
    output: 'Done.',
    tokensUsed: { input: 20, output: 10, model: 'm' },
  });
  expect(requests[0]?.messages.at(-1)).toEqual({ role: 'user', content: 'About tides.' });
  const types = new Set(events.map(({ type }) => type));
  expect([...types].filter((type) => !/^(text|reasoning)\.delta$|^tool\.|^cost\.updated$/.test(type))).toEqual([]);
  expect(types).toContain('tool.execute.end');
  const costs = events.filter((event) => event.type === 'cost.updated');
  expect(costs.map(({ cumulativeCostMicrocents }) => cumulativeCostMicrocents)).toEqual([20, 40]);
});

test('a node of an agent with compaction has its older steps summarised, and pays for it', async () => {
  const usage = { input: 10, output: 5, cached: 0, cacheWrite: 0, total: 15 };
  const page = defineTool({
    name: 'read_page',
    description: 'Reads a page.',
    effect: 'read',
    inputSchema: z.object({ n: z.number() }),
    execute: ({ n }) => `page ${n} ${'x'.repeat(3_000)}`,
  });
  let asked = 0;
  const { run, requests, events } = makeExecutor({
    script({ tools }) {
      if (!tools) return { text: 'What was read so far.', usage };
      asked++;
      return asked <= 12 ? { toolCalls: [{ name: 'read_page', args: { n: asked } }], usage } : { text: 'Done.', usage };
    },
    agent: {
      tools: [page],
      modelTierMap: { fast: 'quick' },
      compaction: { contextWindow: 16_384, keepTurns: 2 },
      limits: { maxSteps: 20, maxLlmCalls: 20 },
      postCompactionHooks: [() => 'Answer in French.'],
    },
  });
  expect(await run()).toMatchObject({ kind: 'completed', output: 'Done.' });
  const summaries = requests.filter(({ tools }) => !tools);
  expect(summaries.length).toBeGreaterThan(0);
  expect(new Set(summaries.map(({ model }) => model))).toEqual(new Set(['quick']));
  const after = requests[requests.indexOf(summaries[0] as LlmRequest) + 1]?.messages ?? [];
  expect(after.some((message) => isSummary(message))).toBe(true);
  expect(after.at(-1)).toEqual({ role: 'system', content: 'Answer in French.' });
  const costs = events.filter((event) => event.type === 'cost.updated');
  expect(costs.at(-1)?.cumulativeCostMicrocents).toBe(20 * requests.length);
  expect(events.map(({ type }) => type)).not.toContain('context.compacted');
});

test('an output schema gives a value, and the one of the node is the one that is asked for', async () => {
  const output_schema = { type: 'array' };
  const { run, requests } = makeExecutor({
    script: () => ({ text: '[1]' }),
    agent: { outputSchema: { type: 'string' } },
  });
  expect(await run({ output_schema })).toMatchObject({ output: [1] });
  expect(requests[0]?.responseFormat).toMatchObject({ json_schema: { schema: output_schema } });
});

const failures: readonly [
  what: string,
  options: Options,
  own: Partial<NodeContext['vertex']>,
  code: string,
  named: string,
][] = [
  ['another type of vertex', {}, { type: 'human_gate' }, 'internal', 'human_gate'],
  ['no agent', {}, { resolvedAgent: undefined as never }, 'validation', 'writer'],
  ['an unknown provider', {}, { provider: 'nope' }, 'internal', 'nope'],
  [
    'a fallback with an unknown provider',
    { agent: { fallbackModels: [{ provider: 'gone', model: 'x' }] } },
    {},
    'internal',
    'gone',
  ],
  [
    'a summarizer with an unknown provider',
    { agent: { compaction: { summarizer: { provider: 'gone', model: 'x' } } } },
    {},
    'internal',
    'compaction.summarizer: no provider serves model x of provider gone',
  ],
  ['more tools than the agent has', {}, { tools: ['look'] }, 'validation', 'look'],
  ['a secret in its prompt', {}, { prompt_template: '{{ secrets.key }}' }, 'validation', 'prompt_template'],
  [
    'a secret in its instructions',
    {},
    { system_prompt_append: '{{ secrets.key }}' },
    'validation',
    'system_prompt_append',
  ],
  [
    'a filter for which the host has nothing',
    {},
    { prompt_template: '{{ inputs.topic | read_file }}' },
    'internal',
    'files',
  ],
  ['a field that does not exist', {}, { colour: 'red' } as never, 'validation', 'colour'],
];

test.each(failures)('a vertex with %s fails without a model call', async (_, options, own, code, named) => {
  const { run, requests } = makeExecutor(options);
  const outcome = await run(own);
  expect(outcome).toMatchObject({ kind: 'failed', code, retryable: false });
  expect(outcome.kind === 'failed' && outcome.message).toContain(named);
  expect(requests).toEqual([]);
});

const throwsUp = () => {
  throw new TypeError('oops');
};

test.each([
  ['a provider throws anything', { script: throwsUp }, 'internal', false],
  ['every attempt fails', { script: () => ({ error: { kind: 'overloaded' as const } }) }, 'provider_unavailable', true],
  ['the answer is not the JSON that was asked for', { agent: { outputSchema: {} } }, 'validation', false],
  ['the hook before a call throws', { deps: { preEgress: throwsUp } }, 'internal', false],
])('the outcome is a failure when %s', async (_, options: Options, code, retryable) => {
  const { run } = makeExecutor(options);
  expect(await run()).toMatchObject({ kind: 'failed', code, retryable });
});

test('a cancelled vertex fails as cancelled, whatever else goes wrong', async () => {
  const stop = new AbortController();
  const { run } = makeExecutor({
    script: () => {
      stop.abort();
      return { error: { kind: 'auth' } };
    },
  });
  expect(await run({}, { signal: stop.signal })).toMatchObject({ kind: 'failed', code: 'cancelled', retryable: false });
});

test('a node ends with run_timeout when the time that its agent gives it is over', async () => {
  const { run } = makeExecutor({
    script: (_, signal) =>
      new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
    agent: { limits: { wallTimeMs: 50 } },
  });
  expect(await run()).toMatchObject({ kind: 'failed', code: 'run_timeout', retryable: false });
});

test('executions that share an executor count their own costs', async () => {
  const { run } = makeExecutor({
    script: async ({ messages }) => {
      await new Promise(setImmediate);
      const input = Number(/\d+/.exec(JSON.stringify(messages))?.[0]);
      return { text: 'ok', usage: { input, output: 0, cached: 0, cacheWrite: 0, total: input } };
    },
  });
  const costs = await Promise.all(
    Array.from({ length: 20 }, async (_, i) => {
      const own: EventBody[] = [];
      const outcome = await run({}, { inputs: { topic: i + 1 }, emit: (event) => void own.push(event) });
      const cost = own.find((event) => event.type === 'cost.updated');
      return [outcome.kind === 'completed' && outcome.tokensUsed.input, cost?.cumulativeCostMicrocents];
    }),
  );
  expect(costs).toEqual(Array.from({ length: 20 }, (_, i) => [i + 1, i + 1]));
});

test('the hook before a call runs once for each step', async () => {
  const steps: number[] = [];
  const { run } = makeExecutor({ deps: { preEgress: (step) => void steps.push(step) } });
  await run();
  expect(steps).toEqual([1]);
});

const picture = { bytes: Buffer.from('png'), mediaType: 'image/png' };
const painter: Partial<LlmProvider> = {
  mediaOf: () => ({ modality: 'image', unitMicrocents: 7 }),
  media: { generateMedia: async () => ({ media: [picture] }) },
};
const keeper: Partial<NodeExecutorDeps> = {
  resolveMediaSurface: () => 'generative',
  keepMedia: async () => 'a'.repeat(64),
};

test('a model that the host marks as generative makes media; without the mark every model is chat', async () => {
  const making = makeExecutor({ provider: painter, deps: keeper });
  const media = [{ type: 'image', handle: `media://sha256-${'a'.repeat(64)}`, mediaType: 'image/png', bytes: 3 }];
  expect(await making.run()).toMatchObject({
    kind: 'completed',
    output: { text: '', media },
    tokensUsed: { input: 0, output: 0 },
  });
  expect(making.events).toMatchObject([{ type: 'cost.updated', inputTokens: 0, outputTokens: 0, costMicrocents: 7 }]);
  expect(making.requests).toEqual([]);

  const chatting = makeExecutor({ provider: painter });
  expect(await chatting.run()).toMatchObject({ kind: 'completed', output: 'Done.' });
});

test('a media job is an outcome of its own, and a provider that cannot make media is a wiring mistake', async () => {
  const media = { generateMedia: async () => ({ jobId: 'job-1' }), pollMedia: async () => undefined };
  const { run } = makeExecutor({ provider: { ...painter, media }, deps: keeper });
  expect(await run()).toEqual({ kind: 'media_job', jobId: 'job-1', provider: 'scripted', model: 'm' });
  expect(await makeExecutor({ deps: keeper }).run()).toMatchObject({ kind: 'failed', code: 'internal' });
});
