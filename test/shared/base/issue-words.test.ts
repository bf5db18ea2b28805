import { expect, test } from 'vitest';
import { z } from 'zod';
import { wordsOf } from '../../../src/shared/base/issue-words.ts';
import { nearest } from '../../../src/shared/base/nearest.ts';

function problems(schema: z.ZodType, input: unknown): string[] {
  const { error } = schema.safeParse(input);
  return wordsOf(error?.issues ?? [], schema).map(({ path, message }) => `${path.join('.')}: ${message}`);
}

const schema = z.strictObject({
  input: z.string().max(3),
  steps: z.int().min(1).optional(),
  tags: z.array(z.string()).min(1).optional(),
  mode: z.enum(['pause', 'fail']).optional(),
  id: z.string().regex(/^a$/, 'must be a').optional(),
  when: z.iso.date().optional(),
  limits: z.strictObject({ maxSteps: z.int(), wallTimeMs: z.int().optional() }).partial().optional(),
});

test.each([
  [{}, 'input: is missing'],
  [{ input: 7 }, 'input: must be a text, not a number'],
  [{ input: 'long text' }, 'input: must have at most 3 characters'],
  [{ input: 'a', steps: 1.5 }, 'steps: must be a whole number, not a number'],
  [{ input: 'a', steps: 0 }, 'steps: must be at least 1'],
  [{ input: 'a', tags: [] }, 'tags: must have at least 1 item'],
  [{ input: 'a', mode: 'stop' }, 'mode: must be one of pause, fail'],
  [{ input: 'a', id: 'b' }, 'id: must be a'],
  [{ input: 'a', when: 'soon' }, 'when: is not a valid ISO date'],
  [{ input: 'a', colour: 'red' }, 'colour: is not a known field'],
  [{ input: 'a', limits: { maxStep: 3 } }, 'limits.maxStep: is not a known field; did you mean maxSteps?'],
  [[], ': must be an object, not a list'],
])('%j is wrong in these words: %s', (input, words) => {
  expect(problems(schema, input)).toEqual([words]);
});

test('each unknown field is a problem of its own, beside the others', () => {
  expect(problems(schema, { inptu: 'a', b: 1 })).toEqual([
    'input: is missing',
    'inptu: is not a known field; did you mean input?',
    'b: is not a known field',
  ]);
});

test('of a union the form is spoken of that was meant', () => {
  const union = z.union([z.string(), z.strictObject({ url: z.string(), events: z.array(z.string()).optional() })]);
  expect(problems(union, 7)).toEqual([': must be a text or an object']);
  expect(problems(z.strictObject({ hook: union }), { hook: { urls: 'a' } })).toEqual([
    'hook.url: is missing',
    'hook.urls: is not a known field; did you mean url?',
  ]);
  expect(problems(z.strictObject({ hook: union }), {})).toEqual(['hook: is missing']);
  const tagged = z.discriminatedUnion('kind', [z.object({ kind: z.literal('a') }), z.object({ kind: z.literal('b') })]);
  expect(problems(tagged, { kind: 'c' })).toEqual(['kind: must be one of a, b']);
});

test.each([
  ['suport', 'support'],
  ['sumarize', 'summarise'],
  ['usppor', 'support'],
  ['fallbackmodel', 'fallbackModels'],
  ['gpt', undefined],
  ['zz', undefined],
])('instead of %s the nearest name is %s', (name, meant) => {
  expect(nearest(name, ['support', 'summarise', 'fallbackModels', 'ab'])).toBe(meant);
});
