import { describe, expect, test } from 'vitest';
import { type Message, toolCallsOf } from '../../../../src/shared/contract/message.ts';
import type { AdvertisedTool, LlmPart, LlmProvider, LlmRequest } from '../../../../src/worker/llm/provider.ts';
import { argsFor, createBuiltinScript } from '../../../../src/worker/llm/backends/builtin-script.ts';
import { createIterableBackend } from '../../../../src/worker/llm/backends/iterable.ts';
import { loadModelScript } from '../../../../src/worker/llm/backends/script-file.ts';
import { createScriptedProvider, type ModelScript } from '../../../../src/worker/llm/backends/scripted.ts';
import { always, callsTool, inOrder } from '../../../../src/testing/scripts.ts';
import { scratchFile } from '../scratch-file.ts';

const ask = (content: string): Message => ({ role: 'user', content });
const result = (content: string, isError = false): Message => ({
  role: 'tool',
  toolCallId: 'c',
  toolName: 'lookup_order',
  content,
  isError,
});
const tool = (name: string, properties: Record<string, unknown> = {}, description = ''): AdvertisedTool => ({
  name,
  description,
  parameters: { type: 'object', properties, required: Object.keys(properties) },
});
const request = (overrides: Partial<LlmRequest> = {}): LlmRequest => ({
  model: 'm',
  requestId: 'r',
  idempotencyKey: 'r',
  messages: [ask('hi')],
  ...overrides,
});
const never = new AbortController().signal;

async function play(provider: LlmProvider, overrides: Partial<LlmRequest> = {}, signal = never) {
  const parts: LlmPart[] = [];
  const answer = await provider.generate(request(overrides), (part) => parts.push(part), signal);
  return { answer, parts };
}

const playScript = (script: ModelScript, overrides: Partial<LlmRequest> = {}) =>
  play(createScriptedProvider(script), overrides);

describe('the scripted provider', () => {
  test('text comes word by word and its length is the usage', async () => {
    const { answer, parts } = await playScript(always('one two  three '), { messages: [ask('12345678')] });
    expect(parts.map((part) => (part.type === 'text' ? part.delta : ''))).toEqual(['one', ' two', '  three', ' ']);
    expect(answer).toMatchObject({ finishReason: 'stop', usage: { input: 2, output: 4, total: 6 } });
  });

  test('a tool is called until it has answered', async () => {
    const script = callsTool('find', { order: 7 }, 'found it');
    const { answer } = await playScript(script);
    expect(answer).toMatchObject({
      finishReason: 'tool_use',
      message: { parts: [{ type: 'tool_call', name: 'find', args: '{"order":7}' }] },
    });
    const after = await playScript(script, { messages: [ask('hi'), answer.message, result('x')] });
    expect(after.answer.message.parts).toEqual([{ type: 'text', text: 'found it' }]);
  });

  test('ids of tool calls differ from step to step', async () => {
    const script = () => ({ toolCalls: [{ name: 'a' }, { name: 'a' }] });
    const first = await playScript(script);
    const second = await playScript(script, { messages: [ask('hi'), first.answer.message, result('1'), result('2')] });
    const ids = [...toolCallsOf(first.answer.message), ...toolCallsOf(second.answer.message)].map((call) => call.id);
    expect(new Set(ids).size).toBe(4);
  });

  test('a sequence goes call by call and fails after its end', async () => {
    const provider = createScriptedProvider(inOrder([{ error: { kind: 'overloaded', status: 503 } }, always('two')]));
    await expect(play(provider)).rejects.toMatchObject({ kind: 'overloaded', status: 503, retryable: true });
    expect((await play(provider)).answer.message.parts).toEqual([{ type: 'text', text: 'two' }]);
    await expect(play(provider)).rejects.toMatchObject({
      message: 'the script has 2 answers, and model m is asked once more, after the user message: hi',
    });
  });

  test('an error comes after the parts that were given', async () => {
    const parts: LlmPart[] = [];
    const provider = createScriptedProvider(() => ({ text: 'half', error: { kind: 'transport' } }));
    await expect(provider.generate(request(), (part) => parts.push(part), never)).rejects.toMatchObject({
      kind: 'transport',
    });
    expect(parts).toEqual([{ type: 'text', delta: 'half' }]);
  });

  test('an answer that is cut off leaves its tool call incomplete', async () => {
    const { answer } = await playScript(() => ({
      finishReason: 'length',
      toolCalls: [{ name: 'buy', args: '{"amount":' }],
    }));
    expect(answer).toMatchObject({ incompleteToolCalls: [{ name: 'buy' }], message: { parts: [] } });
  });

  test('an answer keeps to the limit of the request, as that of a real model does', async () => {
    const cut = await playScript(always('word '.repeat(100)), { maxOutputTokens: 5 });
    expect([cut.answer.finishReason, cut.answer.usage?.output]).toEqual(['length', 5]);
    expect(cut.answer.message.parts).toEqual([{ type: 'text', text: 'word word word word ' }]);
    const call = await playScript(callsTool('lookup_order', { order: 'x'.repeat(500) }), { maxOutputTokens: 50 });
    expect(call.answer).toMatchObject({ finishReason: 'length', incompleteToolCalls: [{ name: 'lookup_order' }] });
    expect(call.answer.usage?.output).toBeLessThanOrEqual(50);
    const whole = await playScript(always('word'), { maxOutputTokens: 5 });
    expect(whole.answer.finishReason).toBe('stop');
  });

  test('delays pass on the clock and an abort in one of them is a cancellation', async () => {
    const cancel = new AbortController();
    const sleeps: number[] = [];
    const clock = {
      now: () => 0,
      monotonic: () => 0,
      async sleep(ms: number) {
        if (sleeps.push(ms) === 3) cancel.abort();
      },
    };
    const parts: LlmPart[] = [];
    const provider = createScriptedProvider(() => ({ text: 'a b c d', deltaMs: 40 }), { clock });
    await expect(provider.generate(request(), (part) => parts.push(part), cancel.signal)).rejects.toMatchObject({
      kind: 'cancelled',
    });
    expect([sleeps, parts.length]).toEqual([[40, 40, 40], 2]);
  });
});

describe('a script from a file', () => {
  const file = `
rules:
  - when: { agent: support, user: ORDER, hasToolResult: false }
    answer: { toolCalls: [{ name: lookup_order, args: { order: "{{input}}", list: ["{{input}}", 1] } }] }
  - when: { hasToolResult: true }
    answer: { text: "It says {{toolResult}}." }
  - when: { toolNamed: other }
    answer: { text: other }
  - when: { user: busy }
    answer: { error: { kind: rate_limit, retryAfterMs: 1000 } }
`;
  const load = () => loadModelScript(scratchFile('script.yaml', file));

  test('the first rule that matches answers, with its templates filled in', async () => {
    const first = await playScript(load(), { messages: [ask('my order')], metadata: { agent_name: 'support' } });
    expect(toolCallsOf(first.answer.message)).toMatchObject([
      { name: 'lookup_order', args: '{"order":"my order","list":["my order",1]}' },
    ]);
    const second = await playScript(load(), {
      messages: [ask('my order'), result('shipped')],
      metadata: { agent_name: 'support' },
    });
    expect(second.answer.message.parts).toEqual([{ type: 'text', text: 'It says shipped.' }]);
    expect((await playScript(load(), { tools: [tool('other')] })).answer.message.parts).toEqual([
      { type: 'text', text: 'other' },
    ]);
    await expect(playScript(load(), { messages: [ask('so Busy')] })).rejects.toMatchObject({
      kind: 'rate_limit',
      retryAfterMs: 1_000,
    });
  });

  test('only tool results since the last user message count', async () => {
    const { answer } = await playScript(load(), {
      messages: [ask('a'), result('old'), ask('order'), { role: 'assistant', parts: [] }],
      metadata: { agent_name: 'support' },
    });
    expect(toolCallsOf(answer.message)).toHaveLength(1);
  });

  test('where no rule matches the built-in script answers', async () => {
    const { answer } = await playScript(load(), { messages: [ask('order')], metadata: { agent_name: 'sales' } });
    expect(answer.message.parts).toMatchObject([{ type: 'text', text: expect.stringContaining('You said: order') }]);
  });

  test('every problem of a file is reported at once', () => {
    const path = scratchFile(
      'script.yaml',
      'rules:\n  - when: { agnet: x }\n    answer: {}\n  - answer: { deltaMs: fast }\n',
    );
    const details = ['agnet', 'rules.0.answer', 'rules.1.answer.deltaMs'].map((name) => expect.stringContaining(name));
    expect(() => loadModelScript(path)).toThrow(
      expect.objectContaining({ code: 'invalid_config', details: expect.arrayContaining(details) }),
    );
  });
});

describe('the built-in script', () => {
  const script = createBuiltinScript();
  const tools = [
    tool('weather', { city: { type: 'string' } }),
    tool('lookup_order', { order: { type: 'string' } }),
    tool('bill', {}, 'Sends an invoice.'),
  ];

  test('without tools it repeats the input and says what it is', async () => {
    const { answer } = await playScript(script, { messages: [ask('good day')] });
    expect(answer.message.parts).toMatchObject([{ text: expect.stringMatching(/You said: good day.*scripted/) }]);
  });

  test.each([
    ['where is my order #A-17?', 'lookup_order', { order: 'A-17' }],
    ['an invoice please', 'bill', {}],
    ['hello there', 'weather', { city: 'hello there' }],
  ])('%s calls %s', async (input, name, args) => {
    const { answer } = await playScript(script, { messages: [ask(input)], tools });
    expect(toolCallsOf(answer.message).map((call) => [call.name, JSON.parse(call.args)])).toEqual([[name, args]]);
  });

  test('the choice of the request is obeyed', async () => {
    const none = await playScript(script, { tools, toolChoice: 'none' });
    expect(toolCallsOf(none.answer.message)).toEqual([]);
    const named = await playScript(script, { tools, toolChoice: { name: 'bill' } });
    expect(toolCallsOf(named.answer.message)).toMatchObject([{ name: 'bill' }]);
  });

  test('after a tool result it repeats the result', async () => {
    const good = await playScript(script, { messages: [ask('order 7'), result('shipped')], tools });
    expect(good.answer.message.parts).toEqual([{ type: 'text', text: 'The tool lookup_order answered: shipped' }]);
    const bad = await playScript(script, { messages: [ask('order 7'), result('gone', true)], tools });
    expect(bad.answer.message.parts).toEqual([{ type: 'text', text: 'The tool lookup_order failed with: gone' }]);
  });

  test('arguments fit the schema as far as the text allows', () => {
    const schema = {
      properties: {
        id: { type: 'string' },
        count: { type: 'integer', minimum: 1, maximum: 10 },
        ratio: { type: 'number' },
        color: { enum: ['red', 'blue'] },
        fixed: { const: 4 },
        flag: { type: 'boolean' },
        list: { type: 'array', items: { type: 'string' } },
        nested: {
          type: 'object',
          properties: { any: { anyOf: [{ type: 'string' }, { type: 'null' }] }, not: {} },
          required: ['any'],
        },
        optional: { type: 'string' },
      },
      required: ['id', 'count', 'ratio', 'color', 'fixed', 'flag', 'list', 'nested'],
    };
    expect(argsFor(schema, 'paint 22.5 things BLUE')).toEqual({
      id: '22.5',
      count: 10,
      ratio: 22.5,
      color: 'blue',
      fixed: 4,
      flag: true,
      list: ['22.5'],
      nested: { any: '22.5' },
    });
    expect(argsFor(schema, 'paint')).toMatchObject({ id: 'paint', count: 1, ratio: 1, color: 'red' });
    expect(argsFor({}, 'x')).toEqual({});
  });

  test('a schema that contains itself comes to an end', () => {
    const node: Record<string, unknown> = { type: 'object', required: ['child'] };
    node['properties'] = { child: node };
    expect(JSON.stringify(argsFor(node, 'deep'))).toContain('deep');
  });
});

describe('a generator as a provider', () => {
  test('its parts become an answer that stops, or stops for tools', async () => {
    const words = createIterableBackend(async function* () {
      yield { type: 'text', delta: 'a' };
      yield { type: 'text', delta: 'b' };
    });
    const { answer, parts } = await play(words);
    expect(answer).toEqual({
      message: { role: 'assistant', parts: [{ type: 'text', text: 'ab' }] },
      finishReason: 'stop',
      incompleteToolCalls: [],
    });
    expect(parts).toHaveLength(2);
    const calls = createIterableBackend(async function* () {
      yield { type: 'tool_call_start', id: 'x', name: 'find' };
      yield { type: 'tool_call_delta', id: 'x', delta: '{}' };
      yield { type: 'end', usage: { input: 1, output: 2, cached: 0, cacheWrite: 0, total: 3 } };
    });
    expect((await play(calls)).answer).toMatchObject({
      finishReason: 'tool_use',
      usage: { total: 3 },
      message: { parts: [{ id: 'x', name: 'find', args: '{}' }] },
    });
  });

  test('an abort ends the generator and is a cancellation', async () => {
    const cancel = new AbortController();
    let ended = false;
    const endless = createIterableBackend(async function* () {
      try {
        for (;;) yield { type: 'text', delta: 'x' };
      } finally {
        ended = true;
      }
    });
    const call = endless.generate(request(), () => cancel.abort(), cancel.signal);
    await expect(call).rejects.toMatchObject({ kind: 'cancelled' });
    expect(ended).toBe(true);
  });
});
