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

test('texts for the model do not travel', () => {
  const schema = askedSchema(toolWith(z.object({ to: z.string().describe('who gets it') })));
  expect(JSON.stringify(schema)).not.toContain('who gets it');
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
