import { expect, test } from 'vitest';
import { jsonCopy } from '../../../src/shared/base/json-value.ts';

test('JSON is copied and frozen, all the way down', () => {
  const given = { list: [1, 'two', null, { three: true }], none: undefined };
  const copy = jsonCopy(given, 'it', 1_000) as { list: unknown[] };
  expect(copy).toEqual({ list: [1, 'two', null, { three: true }] });
  expect(copy).not.toBe(given);
  expect([copy, copy.list, copy.list[3]].every((part) => Object.isFrozen(part))).toBe(true);
  expect(Object.isFrozen(given.list)).toBe(false);
});

test.each<[string, unknown, RegExp]>([
  ['nothing', undefined, /undefined/],
  ['a hole in a list', [1, undefined], /1 is of type undefined/],
  ['a function', { run: () => 1 }, /run is of type function/],
  ['a bigint', { n: 1n }, /n is of type bigint/],
  ['infinity', { a: { b: Number.POSITIVE_INFINITY } }, /a\.b is not finite/],
  ['a date', { at: new Date() }, /at is no plain object/],
  ['an error', new Error('secret'), /it is no plain object/],
  ['a field that writes itself', { toJSON: () => 1 }, /toJSON is of type function/],
])('%s is refused with its place', (_, value, message) => {
  expect(() => jsonCopy(value, 'the value', 1_000)).toThrow(expect.objectContaining({ code: 'validation' }));
  expect(() => jsonCopy(value, 'the value', 1_000)).toThrow(message);
});

test('sizes and depths are bounded, also of what is met again and again', () => {
  expect(() => jsonCopy('x'.repeat(11), 'it', 12)).toThrow('13 bytes');
  expect(jsonCopy('x'.repeat(10), 'it', 12)).toBe('x'.repeat(10));
  let twice: unknown = 1;
  for (let level = 0; level < 40; level++) twice = [twice, twice];
  expect(() => jsonCopy(twice, 'it', 10_000)).toThrow('too large');
  let deep: unknown = 1;
  for (let level = 0; level < 49; level++) deep = [deep];
  expect(() => jsonCopy(deep, 'it', 10_000)).toThrow('48 levels');
});
