import { expect, test } from 'vitest';
import { z } from 'zod';
import { RunError } from '../../../src/shared/base/errors.ts';
import { defineTool } from '../../../src/worker/tools/define.ts';
import { configuredTools } from '../../../src/worker/tools/configure.ts';
import { createToolRegistry } from '../../../src/worker/tools/registry.ts';
import { calls, makeWorld, tool } from './world.ts';

const minimal = { name: 'look', description: 'Looks.', inputSchema: z.object({ at: z.string() }), execute: () => 'ok' };

test('a minimal tool gets the safe defaults', () => {
  expect(defineTool(minimal)).toMatchObject({
    effect: 'once',
    onUnknown: 'report',
    executionMode: 'parallel',
    timeoutMs: 60_000,
    maxResultTokens: 16_384,
  });
});

test('arguments are advertised as the JSON Schema of what the model has to send', () => {
  const inputSchema = z.object({
    order: z.string().describe('The number.'),
    count: z.int().default(1),
    day: z.string().transform((text) => new Date(text)),
    note: z.string().optional(),
  });
  const { parameters } = defineTool({ ...minimal, inputSchema });
  expect(parameters).toEqual({
    type: 'object',
    properties: {
      order: { type: 'string', description: 'The number.' },
      count: { type: 'integer', default: 1, minimum: -9007199254740991, maximum: 9007199254740991 },
      day: { type: 'string' },
      note: { type: 'string' },
    },
    required: ['order', 'day'],
  });
});

test('a definition with several mistakes names each of them', () => {
  const wrong = { ...minimal, name: 'no spaces please', description: ' ', effect: 'sometimes', timeout: 3 };
  const problems = problemsOf(() => defineTool(wrong as never));
  expect(problems.join('\n')).toMatch(/name: must be 1 to 64/);
  expect(problems.join('\n')).toMatch(/description/);
  expect(problems.join('\n')).toMatch(/effect/);
  expect(problems.join('\n')).toMatch(/timeout/);
});

test.each([
  ['a schema that is no object', { inputSchema: z.string() }, /inputSchema: must be an object/],
  ['a schema without a JSON form', { inputSchema: z.object({ big: z.bigint() }) }, /inputSchema: has no JSON Schema/],
  ['a schema that is not from zod', { inputSchema: { type: 'object' } }, /inputSchema: has no JSON Schema/],
  ['no function to execute', { execute: 'now' }, /execute: must be a function/],
  [
    'reconcile on a tool that may be repeated',
    { effect: 'read', reconcile: async () => ({}) },
    /reconcile: has no meaning/,
  ],
  [
    'onUnknown on a tool that may be repeated',
    { effect: 'idempotent', onUnknown: 'fail' },
    /onUnknown: has no meaning/,
  ],
])('a tool with %s is refused', (_what, change, problem) => {
  expect(problemsOf(() => defineTool({ ...minimal, ...change } as never)).join('\n')).toMatch(problem);
});

test('a tool is frozen and keeps the context of its definition', () => {
  const shop = {
    ...minimal,
    stock: 3,
    execute() {
      return this.stock;
    },
  };
  const { stock: _, ...definition } = shop;
  const made = defineTool({ ...definition, execute: () => shop.execute() });
  expect(made.execute({}, {} as never)).toBe(3);
  expect(Object.isFrozen(made)).toBe(true);
});

test('a registry finds tools by their exact name only', () => {
  const registry = createToolRegistry([tool('look', () => 1)]);
  expect(registry.find('look')?.name).toBe('look');
  expect(registry.find('Look')).toBeUndefined();
  expect(registry.find('toString')).toBeUndefined();
});

test('a registry advertises the name, description and parameters of each tool', () => {
  const look = tool('look', () => 1);
  expect(createToolRegistry([look]).advertised([])).toEqual([
    { name: 'look', description: look.description, parameters: look.parameters },
  ]);
});

test('a registry refuses two tools of one name', () => {
  const look = tool('look', () => 1);
  expect(() => configuredTools([look, tool('go', () => 1), look])).toThrow('tools with the same name: look');
});

function problemsOf(define: () => unknown): string[] {
  try {
    define();
  } catch (error) {
    if (error instanceof RunError && error.code === 'validation') return error.details as string[];
    throw error;
  }
  throw new Error('the definition was accepted');
}

test('a tool may be deferred in both spellings, and promise the form of its results', async () => {
  const deferred = defineTool({ ...minimal, defer_loading: true });
  expect([deferred.deferLoading, defineTool(minimal).deferLoading]).toEqual([true, false]);
  const world = makeWorld();
  const promising = tool('look', (args) => args['answer'], { outputSchema: z.object({ colour: z.string() }) });
  await world.run(
    [promising],
    calls(
      { name: 'look', args: '{"answer":{"colour":"blue","more":1}}' },
      { name: 'look', args: '{"answer":{"colour":7}}' },
    ),
  );
  expect(world.result(0)).toMatchObject({ content: '{"colour":"blue"}' });
  expect(world.result(1)).toMatchObject({ errorKind: 'invalid_output' });
  expect(world.result(1).content).toContain('colour');
});
