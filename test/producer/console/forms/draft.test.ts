import { expect, test } from 'vitest';
import {
  asWholeJson,
  changesIn,
  draftOf,
  isTouched,
  problemsIn,
  typedBroken,
  type Draft,
} from '../../../../src/producer/console/forms/draft.ts';

const schema = { type: 'object', properties: { order: { type: 'number' }, amount: { type: 'number', maximum: 500 } } };
const original = { order: 7, amount: 24.9 };

function edited(amount: number): Draft {
  return { ...draftOf(original, schema), value: { ...original, amount } };
}

test('what was typed last counts, not the value that stood there before', () => {
  const draft = typedBroken(edited(9_999), ['amount'], { text: 'abc', problem: 'must be a number' });
  expect(changesIn(draft)).toEqual([{ path: 'amount', before: '24.9', after: 'abc', isBroken: true }]);
  expect([...problemsIn(draft)]).toEqual([['amount', 'must be a number']]);
  expect(isTouched(draft)).toBe(true);
});

test('a field that was left broken goes into the JSON as it was typed, where its schema refuses it', () => {
  const draft = asWholeJson(typedBroken(edited(9_999), ['amount'], { text: 'abc', problem: 'must be a number' }));
  expect(draft.value).toEqual({ order: 7, amount: 'abc' });
  expect([...problemsIn(draft)]).toEqual([['amount', 'must be number']]);
});

test('a name with a dot is a name, also in the JSON', () => {
  const draft = typedBroken(draftOf({ 'a.b': 1 }, undefined), ['a.b'], { text: 'x', problem: 'must be a number' });
  expect(asWholeJson(draft).value).toEqual({ 'a.b': 'x' });
});

test('an argument whose name has a dot, or none, is not taken for another one', () => {
  const original = { 'a.b': 1, a: { b: 1 }, '': 1 };
  const problem = 'must be a number';
  const typed = typedBroken(draftOf(original, undefined), ['a', 'b'], { text: 'x', problem });
  expect([...problemsIn(typed)]).toEqual([['a.b', problem]]);
  const both = typedBroken(typedBroken(typed, ['a.b'], { text: 'y', problem }), [''], { text: 'z', problem });
  expect([...problemsIn(both).keys()]).toEqual(['a.b', '"a.b"', '""']);
  expect(asWholeJson(both).value).toEqual({ 'a.b': 'y', a: { b: 'x' }, '': 'z' });
});

test('a text that is no JSON is the only thing that is wrong, and changes nothing that could be shown', () => {
  const draft = typedBroken(edited(9_999), [], { text: '{"order"', problem: 'is not JSON' });
  expect([...problemsIn(draft)]).toEqual([['', 'is not JSON']]);
  expect(changesIn(draft)).toEqual([]);
  expect(isTouched(draft)).toBe(true);
});

test('what is wrong with a part of a value that is typed anew is not said', () => {
  const lines = { type: 'array', items: { type: 'object', properties: { count: { minimum: 1 } } } };
  const given = { lines: [{ count: 1 }] };
  const value = { lines: [{ count: 0 }] };
  const draft = { ...draftOf(given, { type: 'object', properties: { lines } }), value };
  expect([...problemsIn(draft).keys()]).toEqual(['lines.0.count']);
  expect([...problemsIn(typedBroken(draft, ['lines'], { text: '[', problem: 'is not JSON' })).keys()]).toEqual([
    'lines',
  ]);
});

test('a value again takes the place of what was broken', () => {
  const broken = typedBroken(edited(5), ['amount'], { text: 'x', problem: 'must be a number' });
  expect(changesIn(typedBroken(broken, ['amount'], undefined))).toEqual([
    { path: 'amount', before: '24.9', after: '5', isBroken: false },
  ]);
  expect(isTouched(draftOf(original, schema))).toBe(false);
});
