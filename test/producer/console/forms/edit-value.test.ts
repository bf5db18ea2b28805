import { expect, test } from 'vitest';
import {
  changesBetween,
  maskedIn,
  readJson,
  readNumber,
  withAt,
  withoutAt,
} from '../../../../src/producer/console/forms/edit-value.ts';

test('a value is replaced at its path, and nothing else changes', () => {
  const before = { to: 'kim', lines: [{ sku: 'a' }, { sku: 'b' }] };
  expect(withAt(before, ['lines', 1, 'sku'], 'c')).toEqual({ to: 'kim', lines: [{ sku: 'a' }, { sku: 'c' }] });
  expect(withAt(before, ['address', 'city'], 'Bern')).toMatchObject({ to: 'kim', address: { city: 'Bern' } });
  expect(before.lines[1]).toEqual({ sku: 'b' });
});

test('what is left out is gone, and items of a list move up', () => {
  const before = { to: 'kim', lines: ['a', 'b', 'c'] };
  expect(withoutAt(before, ['to'])).toEqual({ lines: ['a', 'b', 'c'] });
  expect(withoutAt(before, ['lines', 1])).toEqual({ to: 'kim', lines: ['a', 'c'] });
  expect(withoutAt(before, ['nothing', 'here'])).toEqual(before);
});

test('only what is a number, and can be kept exactly, is taken for one', () => {
  expect(readNumber(' 12.5 ', false)).toEqual({ ok: true, value: 12.5 });
  expect(readNumber('', false)).toEqual({ ok: false, problem: 'must be a number' });
  expect(readNumber('1e999', false)).toMatchObject({ ok: false });
  expect(readNumber('1.5', true)).toEqual({ ok: false, problem: 'must be a whole number' });
  expect(readNumber('9007199254740993', true)).toEqual({ ok: false, problem: 'is too large to be kept exactly' });
  expect(readJson('{"a":')).toMatchObject({ ok: false });
  expect(readJson('{"a":[1]}')).toEqual({ ok: true, value: { a: [1] } });
});

test('the changes are named leaf by leaf, and equal values have none', () => {
  const before = { to: 'kim', amount: 5, tags: ['a'], note: 'x' };
  expect(changesBetween(before, { tags: ['a'], note: 'x', amount: 5, to: 'kim' })).toEqual([]);
  expect(changesBetween(before, { to: 'kim', amount: 6, tags: ['a', 'b'] })).toEqual([
    { path: 'amount', before: '5', after: '6' },
    { path: 'tags.1', before: undefined, after: '"b"' },
    { path: 'note', before: '"x"', after: undefined },
  ]);
});

test('texts that were masked are found wherever they stand', () => {
  const args = { to: 'kim', auth: { token: '[redacted]' }, parts: ['a [redacted: a secret] b'] };
  expect(maskedIn(args)).toEqual(['auth.token', 'parts.0']);
});
