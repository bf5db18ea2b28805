import { expect, test } from 'vitest';
import { z } from 'zod';
import { ArgumentChecks } from '../../../../src/shared/base/argument-checks.ts';
import { withOptions } from '../../../../src/worker/tools/configure.ts';
import { defineTool } from '../../../../src/worker/tools/define.ts';
import { askedSchema } from '../../../../src/worker/tools/execute/asked-schema.ts';

const toolWith = (inputSchema: z.ZodType) =>
  defineTool({ name: 'pay', description: 'Pays.', inputSchema, execute: () => 1 });

function problemsIn(schema: Record<string, unknown> | undefined, args: unknown): readonly string[] {
  const tooSlow = () => {
    throw new Error('it was not checked');
  };
  const checked = new ArgumentChecks().check({ checked: schema ?? {}, dialect: '2020-12' }, args, tooSlow);
  return checked.ok ? [] : checked.problems;
}

test('a pattern that RE2 does not take is left to the worker, and the rest is checked', () => {
  const schema = askedSchema(toolWith(z.object({ to: z.email(), amount: z.int().max(500) })));
  expect(problemsIn(schema, { to: 'a@b.example', amount: 501 })).toEqual(['amount: must be <= 500']);
});

test('what arguments mean travels for the person who fills them in, without hidden characters', () => {
  const schema = askedSchema(toolWith(z.object({ to: z.string().describe('who \u202Egets it') })));
  expect(schema).toMatchObject({ properties: { to: { type: 'string', description: 'who gets it' } } });
});

test('a schema that is too large with its texts travels without them', () => {
  const names = Array.from({ length: 40 }, (_, at) => [
    `name_${at}`,
    z
      .string()
      .optional()
      .describe(`what ${'x'.repeat(500)}`),
  ]);
  const schema = askedSchema(toolWith(z.object(Object.fromEntries(names))));
  expect(JSON.stringify(schema)).not.toContain('what');
  expect(problemsIn(schema, { name_1: 1 })).toContain('name_1: must be string');
});

test('an argument that the agent sets itself cannot be given', () => {
  const tool = withOptions(toolWith(z.object({ to: z.string(), key: z.string() })), {
    args: { key: { secret: 'PAY_KEY' } },
  });
  expect(problemsIn(askedSchema(tool), { to: 'kim' })).toEqual([]);
  expect(problemsIn(askedSchema(tool), { to: 7 })).toEqual(['to: must be string']);
  expect(problemsIn(askedSchema(tool), { to: 'kim', key: 'mine' })).toEqual(['key: must not be given']);
});

test('a schema without room is left out', () => {
  const names = Array.from({ length: 1_000 }, (_, index) => [`a_rather_long_name_${index}`, z.string()]);
  expect(askedSchema(toolWith(z.object(Object.fromEntries(names))))).toBeUndefined();
});
