import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import type { RunEvent } from '../../../src/shared/contract/event.ts';
import { createAgentWith } from '../../../src/worker/local/create-agent.ts';
import { LlmError } from '../../../src/worker/llm/errors.ts';
import type { LlmProvider, LlmRequest } from '../../../src/worker/llm/provider.ts';
import type { ModelResolver } from '../../../src/worker/llm/backends/providers.ts';
import { createScriptedProvider, type ModelScript } from '../../../src/worker/llm/backends/scripted.ts';
import { defineAgent, type AgentSource } from '../../../src/worker/agents/define-agent.ts';
import { defineTool } from '../../../src/worker/tools/define.ts';
import type { ToolDefinition } from '../../../src/worker/tools/tool.ts';

const tool = (name: string, preferredModel?: ToolDefinition['preferredModel']) =>
  defineTool({
    name,
    description: name,
    inputSchema: z.object({}),
    effect: 'read',
    execute: () => 'ok',
    ...(preferredModel !== undefined && { preferredModel }),
  });

/** An agent whose models are served by providers of any id, `provider/model` naming one; `a` is the default. */
function world(
  source: Partial<AgentSource>,
  script: ModelScript = () => ({ text: 'done' }),
  more: Record<string, ModelScript> = {},
) {
  const requests: { provider: string; request: LlmRequest }[] = [];
  const resolved: string[] = [];
  const known = ['a', 'b', 'c'].map((id) =>
    createScriptedProvider(
      (request, signal) => {
        requests.push({ provider: id, request });
        return (more[id] ?? script)(request, signal);
      },
      { id },
    ),
  );
  const resolveModel: ModelResolver = (name, wanted) => {
    resolved.push(wanted === undefined ? name : `${wanted}:${name}`);
    const [, prefix, bare = name] = /^([a-z])\/(.*)$/.exec(name) ?? [];
    const provider = known.find(({ id }) => id === (wanted ?? prefix ?? 'a'));
    return provider && { provider, model: bare };
  };
  const agent = defineAgent({ id: 'x', model: 'm', retry: { max: 1 }, ...source });
  const handle = createAgentWith(agent, {
    // There is no other provider: what the resolver does not know has none.
    env: { MILLRACE_PROVIDERS: '', OPENAI_API_KEY: 'sk-none', OPENAI_BASE_URL: 'http://127.0.0.1:1/v1' },
    resolveModel,
  });
  return {
    handle,
    resolved,
    requests,
    asked: () => requests.map(({ provider, request }) => `${provider}/${request.model}`),
    async run(overrides?: { model?: string }) {
      const stream = handle.stream('go', overrides && { overrides });
      const events: RunEvent[] = [];
      for await (const event of stream) events.push(event);
      const steps = events
        .filter((event) => event.type === 'step.start')
        .map(({ model, modelSource, modelReason }) => [model, modelSource, ...(modelReason ? [modelReason] : [])]);
      return { ...(await stream.result), events, steps };
    },
  };
}

/** Calls these tools, one step after the other, and then answers. */
const callsOneByOne =
  (...names: readonly (string | readonly string[])[]): ModelScript =>
  ({ messages }) => {
    const calls = names[messages.filter(({ role }) => role === 'assistant').length];
    return calls ? { toolCalls: [calls].flat().map((name) => ({ name })) } : { text: 'done' };
  };

describe('tiers', () => {
  const modelTierMap = { smart: 'b/big', fast: { provider: 'c', model: 'small' } };

  test('a tool decides the model of the step after it, and of no other', async () => {
    const w = world(
      { tools: [tool('think', 'smart'), tool('plain')], modelTierMap },
      callsOneByOne('think', 'plain', 'plain'),
    );
    const { status, steps } = await w.run();
    expect(status).toBe('completed');
    expect(w.asked()).toEqual(['a/m', 'b/big', 'a/m', 'a/m']);
    expect(steps).toEqual([
      ['m', 'agent'],
      ['big', 'tier-map'],
      ['m', 'agent'],
      ['m', 'agent'],
    ]);
  });

  test('of the tools of a step the strongest wish counts', async () => {
    const tools = [tool('think', 'smart'), tool('skim', 'fast'), tool('ask', { provider: 'c', model: 'exact' })];
    const w = world({ tools, modelTierMap }, callsOneByOne(['skim', 'think'], ['skim', 'ask', 'think'], 'skim'));
    await w.run();
    expect(w.asked()).toEqual(['a/m', 'b/big', 'c/exact', 'c/small']);
  });

  test('a tier that is not mapped leaves the model as it is and gives the reason', async () => {
    const w = world({ tools: [tool('weigh', 'balanced')], modelTierMap }, callsOneByOne('weigh'));
    expect((await w.run()).steps).toEqual([
      ['m', 'agent'],
      ['m', 'agent', 'no model is mapped to the tier balanced'],
    ]);
  });

  test("the agent's preference holds where no tool has one, and gives way to the request", async () => {
    const w = world({ preferredModel: 'fast', tools: [tool('think', 'smart')], modelTierMap }, callsOneByOne('think'));
    await w.run();
    expect(w.asked()).toEqual(['c/small', 'b/big']);
    w.requests.length = 0;
    await w.run({ model: 'wanted' });
    expect(w.asked()).toEqual(['a/wanted', 'a/wanted']);
  });

  test('the fallbacks stand behind a preferred model, and so does the model of the agent', async () => {
    const down: ModelScript = () => ({ error: { kind: 'overloaded' } });
    const w = world(
      { preferredModel: 'smart', modelTierMap, fallbackModels: ['c/last'] },
      () => ({ error: { kind: 'overloaded' } }),
      { b: down, c: () => ({ text: 'from c' }) },
    );
    expect(await w.run()).toMatchObject({ status: 'completed', text: 'from c' });
    expect(w.asked()).toEqual(['b/big', 'a/m', 'c/last']);
  });

  test('are looked up once, however many steps and runs follow', async () => {
    const w = world({ tools: [tool('think', 'smart')], modelTierMap }, callsOneByOne('think', 'think'));
    const atStart = w.resolved.filter((name) => name === 'b/big' || name === 'c:small');
    expect(atStart).toEqual(['c:small', 'b/big']);
    await w.run();
    await w.run();
    expect(w.resolved.filter((name) => name.includes('big') || name.includes('small'))).toEqual(atStart);
  });

  test('without a provider are problems from the start, all of them at once', () => {
    const tools = [tool('ask', { provider: 'none', model: 'x' })];
    expect(() =>
      world({
        preferredModel: { provider: 'nowhere', model: 'y' },
        modelTierMap: { fast: { provider: 'no', model: 'z' } },
        tools,
      }),
    ).toThrow(
      expect.objectContaining({
        code: 'agent_manifest_invalid',
        details: [
          'agent x: modelTierMap.fast: no provider serves model z of provider no',
          'agent x: preferredModel: no provider serves model y of provider nowhere',
          'agent x: tool ask: preferredModel: no provider serves model x of provider none',
        ],
      }),
    );
  });
});

describe('prepareStep', () => {
  const down: ModelScript = () => ({ error: { kind: 'overloaded' } });

  test('sees the step, the conversation and the last calls', async () => {
    const seen: unknown[] = [];
    const w = world(
      {
        tools: [tool('look')],
        prepareStep({ stepNumber, messages, lastCalls }) {
          seen.push([stepNumber, messages.map(({ role }) => role), lastCalls]);
          return undefined;
        },
      },
      callsOneByOne(['look', 'nope']),
    );
    await w.run();
    expect(seen).toEqual([
      [1, ['user'], []],
      [
        2,
        ['user', 'assistant', 'tool', 'tool'],
        [
          { name: 'look', args: '{}' },
          { name: 'nope', args: '{}', errorKind: 'unknown_tool' },
        ],
      ],
    ]);
  });

  test('a forced provider turns the chain off: when it is down no other is asked', async () => {
    const w = world(
      { fallbackModels: ['c/spare'], prepareStep: () => ({ provider: 'b' }) },
      () => ({ text: 'from elsewhere' }),
      { b: down },
    );
    const { status, error, steps } = await w.run();
    expect({ status, code: error?.code }).toEqual({ status: 'failed', code: 'provider_unavailable' });
    expect(w.asked()).toEqual(['b/m']);
    expect(steps).toEqual([['m', 'prepare-step']]);
  });

  test('the chain is on again in the next step', async () => {
    const w = world(
      {
        tools: [tool('look')],
        fallbackModels: ['c/spare'],
        prepareStep: ({ stepNumber }) => (stepNumber === 1 ? { model: 'b/one' } : undefined),
      },
      undefined,
      { a: down, b: () => ({ toolCalls: [{ name: 'look' }] }), c: () => ({ text: 'c' }) },
    );
    expect(await w.run()).toMatchObject({ status: 'completed', text: 'c' });
    expect(w.asked()).toEqual(['b/one', 'a/m', 'c/spare']);
  });

  test('comes before the request', async () => {
    const w = world({ prepareStep: async () => ({ model: 'forced' }) });
    await w.run({ model: 'wanted' });
    expect(w.asked()).toEqual(['a/forced']);
  });

  test('can forbid tools, or ask for one, for a step', async () => {
    const w = world(
      {
        tools: [tool('look')],
        prepareStep: ({ stepNumber }) => ({ toolChoice: stepNumber === 1 ? { name: 'look' } : 'none' }),
      },
      callsOneByOne('look'),
    );
    await w.run();
    expect(w.requests.map(({ request }) => request.toolChoice)).toEqual([{ name: 'look' }, 'none']);
  });

  test.each<[string, NonNullable<AgentSource['prepareStep']>, string]>([
    [
      'throws',
      () => {
        throw new Error('no such plan');
      },
      'prepareStep failed: no such plan',
    ],
    ['rejects', () => Promise.reject(new Error('later')), 'prepareStep failed: later'],
    ['answers something else', () => ({ modle: 'x' }) as never, 'prepareStep answered with something else'],
    ['names a blank model', () => ({ model: ' ' }), 'prepareStep answered with something else'],
    ['asks for an unknown tool', () => ({ toolChoice: { name: 'no' } }), 'asks for the tool no'],
    ['names a provider that is not there', () => ({ provider: 'z' }), 'no provider serves model m'],
  ])('that %s fails the run before anybody is asked', async (_what, prepareStep, message) => {
    const w = world({ prepareStep });
    const { status, error } = await w.run();
    expect({ status, error }).toMatchObject({
      status: 'failed',
      error: { code: 'internal', message: expect.stringContaining(message) },
    });
    expect(w.requests).toEqual([]);
  });

  test('a cancel ends a run whose prepareStep never answers', async () => {
    const asked = Promise.withResolvers<void>();
    const w = world({
      prepareStep: () => {
        asked.resolve();
        return new Promise<never>(() => {});
      },
    });
    const stop = new AbortController();
    const ended = w.handle.run('go', { signal: stop.signal });
    await asked.promise;
    stop.abort();
    expect(await ended).toMatchObject({ status: 'cancelled' });
    expect(w.requests).toEqual([]);
  });
});

test('a step whose plan comes with the cancel is not begun', async () => {
  const stop = new AbortController();
  const w = world({
    prepareStep() {
      stop.abort();
      return { model: 'late' };
    },
  });
  const stream = w.handle.stream('go', { signal: stop.signal });
  const types: string[] = [];
  for await (const { type } of stream) types.push(type);
  expect(await stream.result).toMatchObject({ status: 'cancelled' });
  expect(types).not.toContain('step.start');
});

describe('fallback models', () => {
  const down: ModelScript = () => ({ error: { kind: 'overloaded' } });
  const list = [{ provider: 'b', model: 'two' }, 'c/three'];

  test.each([
    ['fallbackModels', { fallbackModels: list }],
    ['fallback_chain', { fallback_chain: list }],
    ['fallbackModelChain', { fallbackModelChain: list }],
    ['fallback_model_chain', { fallback_model_chain: ['b/two', 'c/three'] }],
    ['policy.fallbackModels', { policy: { fallbackModels: ['b/two', 'c/three'] } }],
    ['failSafe.fallbackModelChain', { failSafe: { fallbackModelChain: ['b/two', 'c/three'] } }],
  ])('written as %s are asked in the same order', async (_spelling, source) => {
    const w = world(source, down);
    expect(await w.run()).toMatchObject({ status: 'failed', error: { code: 'provider_unavailable' } });
    expect(w.asked()).toEqual(['a/m', 'b/two', 'c/three']);
  });

  test('a provider in code is one, with its own model or that of the agent, and its other fields may name it', async () => {
    const asked: string[] = [];
    const inCode = (id: string) =>
      createScriptedProvider(
        ({ model }) => {
          asked.push(`${id}/${model}`);
          return { error: { kind: 'overloaded' } };
        },
        { id },
      );
    const spare = inCode('spare');
    const w = world(
      {
        fallbackModels: [spare, { provider: spare, model: 'm' }, { provider: inCode('last'), model: 'four' }, 'b/two'],
        modelTierMap: { smart: { provider: 'spare', model: 'big' } },
        preferredModel: 'smart',
      },
      down,
    );
    await w.run();
    // The agent prefers its smart tier; the same model of the same provider is asked once.
    expect(asked).toEqual(['spare/big', 'spare/m', 'last/four']);
    expect(w.asked()).toEqual(['a/m', 'b/two']);
  });

  test('two providers of one id are a problem', () => {
    const twins = [createScriptedProvider(down, { id: 'twin' }), createScriptedProvider(down, { id: 'twin' })];
    expect(() => defineAgent({ id: 'x', model: 'm', fallbackModels: twins })).toThrow(
      'fallbackModels: two providers have the id twin',
    );
  });

  test('what a provider in code throws is without its keys', async () => {
    const leaky: LlmProvider = {
      ...createScriptedProvider(down, { id: 'leaky' }),
      secrets: () => ['hunter2hunter2'],
      generate: () => Promise.reject(new LlmError('bad_request', 'leaky', 'refused hunter2hunter2')),
    };
    const w = world({ fallbackModels: [leaky] }, down);
    const view = await w.handle.run('go');
    expect(view.error?.message).toContain('refused');
    expect(JSON.stringify(view)).not.toContain('hunter2');
  });

  test('a model that is named again, in whatever notation, is asked once', async () => {
    const fallbackModels = ['a/m', 'b/two', { provider: 'b', model: 'two' }, 'm', 'c/three', 'b/two'];
    const w = world({ fallbackModels }, down);
    await w.run();
    expect(w.asked()).toEqual(['a/m', 'b/two', 'c/three']);
  });
});
