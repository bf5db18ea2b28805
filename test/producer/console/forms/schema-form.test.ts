import { z } from 'zod';
import { expect, test } from 'vitest';
import { firstValue, formOf, schemaFor, type FormField } from '../../../../src/producer/console/forms/schema-form.ts';

const propertiesOf = (field: FormField) => (field.kind === 'object' ? field.properties : []);
const kindsOf = (field: FormField) => propertiesOf(field).map(({ name, field: { kind } }) => [name, kind]);

test('each kind of value has its field, and what must be given comes first', () => {
  const schema = z.toJSONSchema(
    z.object({
      note: z.string().max(2_000).optional().describe('Why it is paid'),
      to: z.string().min(2),
      amount: z.number().positive().max(500),
      count: z.int(),
      urgent: z.boolean(),
      currency: z.enum(['EUR', 'USD']),
      lines: z.array(z.object({ sku: z.string() })).min(1),
      address: z.object({ city: z.string() }),
    }),
  );
  const form = formOf(schema);
  expect(kindsOf(form)).toEqual([
    ['to', 'text'],
    ['amount', 'number'],
    ['count', 'number'],
    ['urgent', 'flag'],
    ['currency', 'choice'],
    ['lines', 'list'],
    ['address', 'object'],
    ['note', 'text'],
  ]);
  const [to, amount, count, , currency, lines, , note] = propertiesOf(form);
  expect(to).toMatchObject({ required: true, field: { long: false, hint: 'at least 2 characters' } });
  expect(amount?.field).toMatchObject({ whole: false, hint: 'more than 0, at most 500' });
  // The bounds of whole numbers as such are no news to a person.
  expect(count?.field).toMatchObject({ whole: true, hint: undefined });
  expect(currency?.field).toMatchObject({ choices: ['EUR', 'USD'] });
  expect(lines?.field).toMatchObject({ hint: 'at least 1', item: { kind: 'object' } });
  expect(note).toMatchObject({ required: false, field: { long: true, description: 'Why it is paid' } });
});

test('references, null and single alternatives are followed', () => {
  const form = formOf({
    type: 'object',
    $defs: { money: { type: 'object', properties: { cents: { type: 'integer' } } }, 'a/b': { type: 'boolean' } },
    properties: {
      price: { $ref: '#/$defs/money', title: 'Price', description: 'What it costs' },
      odd: { $ref: '#/$defs/a~1b' },
      maybe: { anyOf: [{ type: 'string' }, { type: 'null' }] },
      either: { type: ['number', 'null'] },
    },
  });
  const [price, odd, maybe, either] = propertiesOf(form);
  expect(price?.field).toMatchObject({ kind: 'object', label: 'Price', description: 'What it costs' });
  expect(odd?.field.kind).toBe('flag');
  expect(maybe?.field).toMatchObject({ kind: 'text', nullable: true });
  expect(either?.field).toMatchObject({ kind: 'number', nullable: true });
});

test('what the agent sets itself is no field', () => {
  const form = formOf({ type: 'object', properties: { to: { type: 'string' }, key: false } });
  expect(kindsOf(form)).toEqual([['to', 'text']]);
});

test('what a form cannot show is a field for JSON, and no schema makes it fail', () => {
  const endless = { type: 'object', properties: { next: { $ref: '#' } } };
  let deepest = formOf(endless);
  for (let depth = 0; depth < 20 && deepest.kind === 'object'; depth++) deepest = propertiesOf(deepest)[0]!.field;
  expect(deepest.kind).toBe('json');
  const loop = { $defs: { a: { $ref: '#/$defs/b' }, b: { $ref: '#/$defs/a' } }, $ref: '#/$defs/a' };
  const odd = [
    undefined,
    null,
    true,
    'text',
    {},
    loop,
    { $ref: 'https://elsewhere.example/schema' },
    { $ref: '#/$defs/__proto__' },
    { type: ['string', 'number'] },
    { oneOf: [{ type: 'string' }, { type: 'number' }] },
    { type: 'array', prefixItems: [{ type: 'string' }], items: { type: 'number' } },
    { type: 'object', patternProperties: { '^x': {} } },
    { type: 'object', properties: 7, required: 'all' },
  ];
  for (const schema of odd) expect(formOf(schema).kind).toBe('json');
});

test('a call without a schema gets the form of its arguments', () => {
  const form = formOf(schemaFor({ to: 'kim', amount: 5, tags: ['a', 'b'], mixed: [1, 'b'], none: null }));
  expect(kindsOf(form)).toEqual([
    ['to', 'text'],
    ['amount', 'number'],
    ['tags', 'list'],
    ['mixed', 'json'],
    ['none', 'json'],
  ]);
});

test('a value that is added begins with what its schema says, and with all that it needs', () => {
  const form = formOf({
    type: 'object',
    required: ['sku', 'count'],
    properties: { sku: { type: 'string' }, count: { type: 'integer', default: 1 }, note: { type: 'string' } },
  });
  expect(firstValue(form)).toEqual({ sku: '', count: 1 });
});
