import { expect, test } from 'vitest';
import { readOutput } from '../../../src/worker/turn/output.ts';

const schema = { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'], additionalProperties: false };

test.each([
  ['bare', '{"n":1}'],
  ['with space around', '\n {"n":1} \n'],
  ['in a fence', '```\n{"n":1}\n```'],
  ['in a fence with a language', '```json\n{"n":1}\n```\n'],
])('JSON %s is read', (_what, text) => {
  expect(readOutput(text, schema)).toEqual({ kind: 'valid', value: { n: 1 } });
});

test.each(['', 'n is 1', '{"n":1', '```', '```{"n":1}```', `{"n":${'['.repeat(70)}${']'.repeat(70)}}`])(
  '%j is no JSON to work with',
  (text) => {
    expect(readOutput(text, schema)).toMatchObject({
      kind: 'invalid',
      error: { code: 'validation', retryable: false },
    });
  },
);

test('JSON of another shape names what is wrong and no value of it', () => {
  const output = readOutput('{"n":"secret-value"}', schema);
  expect(output).toMatchObject({ kind: 'invalid', error: { code: 'output_validation_failed' } });
  expect(output.kind === 'invalid' && output.error.message).toContain('/n must be integer');
  expect(output.kind === 'invalid' && output.error.message).not.toContain('secret-value');
});

test('keywords of the 2020 draft are understood', () => {
  const tuple = { type: 'array', prefixItems: [{ type: 'string' }], items: false };
  expect(readOutput('["a"]', tuple).kind).toBe('valid');
  expect(readOutput('["a",1]', tuple).kind).toBe('invalid');
});

test('schemas with the same id do not disturb each other', () => {
  expect(readOutput('1', { $id: 'x', type: 'integer' }).kind).toBe('valid');
  expect(readOutput('"a"', { $id: 'x', type: 'string' }).kind).toBe('valid');
});

test('a schema that is none is reported as such', () => {
  expect(readOutput('1', { type: 'nonsense' })).toMatchObject({ kind: 'invalid', error: { code: 'validation' } });
});
