import { expect, test } from 'vitest';
import {
  createAgent,
  createIterableBackend,
  createSandboxPromptBackend,
  defineAgent,
  withMiddleware,
  type Middleware,
} from '../../../src/worker/index.ts';

const agent = defineAgent({ id: 'support', model: 'gpt-5.2-mini' });
const hello = () =>
  createIterableBackend(async function* () {
    yield { type: 'text', delta: 'hello' };
  });
const shouting: Middleware = {
  name: 'shout',
  kind: 'transform',
  generate: (request, onPart, signal, next) =>
    next(request, (part) => onPart(part.type === 'text' ? { ...part, delta: part.delta.toUpperCase() } : part), signal),
};

test('the middleware of an agent stands between it and its provider', async () => {
  const deltas: string[] = [];
  const stream = createAgent(agent, { provider: hello(), middleware: [shouting], env: {} }).stream('hi');
  for await (const event of stream) if (event.type === 'text.delta') deltas.push(event.delta);
  expect(deltas).toEqual(['HELLO']);
  expect((await stream.result).status).toBe('completed');
});

test('an unsafe order is refused when the agent is made', () => {
  const order: Middleware[] = [{ ...shouting, kind: 'redact' }, shouting];
  expect(() => createAgent(agent, { provider: hello(), middleware: order, env: {} })).toThrow(
    expect.objectContaining({ code: 'middleware_order_violation' }),
  );
  expect(() => withMiddleware(hello(), order)).toThrow(expect.objectContaining({ code: 'middleware_order_violation' }));
});

test('the answer of a provider that does not stream arrives in deltas all the same', async () => {
  const silent = {
    ...hello(),
    id: 'silent',
    capabilities: { tools: true, reasoning: true, streaming: false },
    generate: async () => ({
      message: { role: 'assistant' as const, parts: [{ type: 'text' as const, text: 'x'.repeat(150) }] },
      finishReason: 'stop' as const,
      incompleteToolCalls: [],
    }),
  };
  const deltas: string[] = [];
  const stream = createAgent(agent, { provider: silent, env: {} }).stream('hi');
  for await (const event of stream) if (event.type === 'text.delta') deltas.push(event.delta);
  expect(deltas.length).toBeGreaterThan(1);
  expect(deltas.join('')).toBe('x'.repeat(150));
});

test('an agent in a box: three deltas, its tools relayed, and the end', async () => {
  const provider = createSandboxPromptBackend({
    getBox: () => ({ id: 'box-1' }),
    getSessionId: (box) => box.id,
    async *streamPrompt(_box, message) {
      yield { type: 'text-delta', delta: 'You' };
      yield { type: 'tool_call', id: 't1', name: 'bash', args: { cmd: 'ls' } };
      yield { type: 'tool_result', id: 't1', output: 'a b' };
      yield { type: 'text-delta', delta: ' wrote ' };
      yield { type: 'text-delta', delta: message };
      yield { type: 'final' };
    },
  });
  const types: string[] = [];
  const stream = createAgent(agent, { provider, env: {} }).stream('hi');
  for await (const event of stream) types.push(event.type);
  expect(types.filter((type) => type === 'text.delta')).toHaveLength(3);
  expect(types).toContain('tool.execute.end');
  expect(types.at(-1)).toBe('run.completed');
  expect((await stream.result).text).toBe('You wrote hi');
});
