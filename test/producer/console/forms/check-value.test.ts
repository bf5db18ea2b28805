import { expect, test } from 'vitest';
import { checkValue, refusedFields } from '../../../../src/producer/console/forms/check-value.ts';

const schema = {
  type: 'object',
  required: ['order', 'zip'],
  additionalProperties: false,
  properties: {
    order: { type: 'string', minLength: 2 },
    zip: { type: 'string' },
    amount: { type: 'number', maximum: 10 },
    tags: { type: 'array', items: { type: 'string' } },
    kind: { enum: ['a', 'b'] },
    note: { anyOf: [{ type: 'string' }, { type: 'null' }] },
    'a/b': { type: 'boolean' },
  },
};

test('each problem stands at its field, in words', () => {
  const found = checkValue(schema, { order: '', amount: 20, tags: ['x', 1], kind: 'c', note: 3, extra: 1, 'a/b': 2 });
  expect(Object.fromEntries(found)).toEqual({
    zip: 'must be given',
    order: 'string is too short (0 < 2)',
    amount: '20 is greater than 10',
    'tags.1': 'must be string',
    kind: 'must be one of the choices',
    note: 'must be string',
    extra: 'must not be given',
    'a/b': 'must be boolean',
  });
});

test('arguments that fit have no problem', () => {
  expect(checkValue(schema, { order: 'A-1', zip: '1', note: null }).size).toBe(0);
});

test('patterns and formats are left to the producer, so that no pattern of a stranger stops the page', () => {
  const slow = {
    type: 'object',
    properties: { x: { type: 'string', pattern: '^(a+)+$' }, pattern: { type: 'number' } },
  };
  expect(checkValue(slow, { x: `${'a'.repeat(60)}!`, pattern: 1 }).size).toBe(0);
  expect([...checkValue(slow, { pattern: 'text' }).keys()]).toEqual(['pattern']);
  const named = { type: 'object', patternProperties: { '^x': {} }, additionalProperties: false };
  expect(checkValue(named, { x1: 1 }).size).toBe(0);
});

test('a schema that cannot be followed finds nothing wrong', () => {
  for (const odd of [undefined, true, { $ref: '#/nowhere' }, { type: 'object', properties: { a: 7 } }])
    expect(checkValue(odd, { a: 1 }).size).toBe(0);
});

test('what the producer refuses is shown at its field', () => {
  const details = [
    { path: 'approvals.0.updatedArgs', message: 'amount: must be <= 500' },
    { path: 'approvals.0.updatedArgs', message: 'arguments: must have required property "to"' },
    { path: 'by', message: 'must be a text' },
  ];
  expect(Object.fromEntries(refusedFields(details))).toEqual({
    amount: 'must be <= 500',
    '': 'must have required property "to"',
  });
  expect(refusedFields('nonsense').size).toBe(0);
});
