import { expect, test } from 'vitest';
import { z } from 'zod';
import { dataFlowPolicy } from '../../../../src/shared/contract/flow.ts';
import { namedPath } from '../../../../src/worker/guards/flow/named-path.ts';

const address = z.object({ street: z.string(), zip: z.string().optional() }).meta({ id: 'Address' });
const parameters = z.toJSONSchema(
  z.object({
    to: z.string(),
    items: z.array(z.object({ iban: z.string(), ship: address })),
    either: z.union([z.object({ a: z.string() }), z.object({ b: z.array(z.string()) })]),
    home: address.optional(),
    pair: z.tuple([z.string(), z.object({ x: z.string() })]),
    fields: z.record(z.string(), z.object({ value: z.string() })),
    anything: z.unknown(),
  }),
);

const policy = dataFlowPolicy.parse({
  mode: 'shadow',
  tools: { pay: { arguments: { 'rows.iban': { from: ['user'] } } } },
});

test.each([
  ['to', 'to'],
  ['items.0.iban', 'items.0.iban'],
  ['items.12.ship.street', 'items.12.ship.street'],
  ['either.a', 'either.a'],
  ['either.b.3', 'either.b.3'],
  ['home.zip', 'home.zip'],
  ['pair.1.x', 'pair.1.x'],
  ['fields.the code is 7.value', 'fields.*.value'],
  ['fields.a.b', 'fields.*.*'],
  ['anything.the code is 7', 'anything.*'],
  ['anything.7', 'anything.*'],
  ['the code is 7', '*'],
  ['to.7', 'to.*'],
  ['items.code', 'items.*'],
  ['constructor', '*'],
  ['__proto__.toString', '*.*'],
  ['', '*'],
  ['rows.3.iban', 'rows.3.iban'],
  ['rows.3.other', '*.*.*'],
])('%s is shown as %s', (path, shown) => {
  expect(namedPath(path, parameters, policy)).toBe(shown);
});

test('a schema that refers to itself, or to what is not there, ends', () => {
  const loop = { type: 'object', properties: { a: { $ref: '#/properties/a' }, b: { $ref: '#/nowhere' } } };
  expect(namedPath('a.secret', loop, policy)).toBe('a.*');
  expect(namedPath('b.secret', loop, policy)).toBe('b.*');
  expect(namedPath('list.4', { type: 'object', properties: { list: { type: 'array' } } }, policy)).toBe('list.4');
});
