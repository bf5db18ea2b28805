import { expect, test } from 'vitest';
import { cleanJson, cleanText } from '../../../src/shared/base/text.ts';
import { maxLevels, jsonText, repeatsKey, storedJson } from '../../../src/shared/base/json.ts';
import { rounds } from '../../support/lane.ts';
import { deep, oddValue } from '../../support/odd.ts';
import { testRedis } from '../../support/redis.ts';
import { seeded } from '../../support/seeded.ts';

const high = '\ud83d';
const low = '\ude00';

test('half a character is written as U+FFFD, whole ones and escaped backslashes as they are', () => {
  const value = { [`k${low}`]: [`${high}x`, `${low}${high}`, `${high}${low}`, '\\ud83d', '\\\\ud83d', '\ue000"\n\0'] };
  expect(JSON.parse(jsonText(value))).toEqual({
    'k\ufffd': ['\ufffdx', '\ufffd\ufffd', '😀', '\\ud83d', '\\\\ud83d', '\ue000"\n\0'],
  });
});

test('apart from that the writer is the language’s own', () => {
  const values = [undefined, null, 7, -0, Number.NaN, 'text', { a: undefined, b: [undefined] }, new Date(0)];
  for (const value of values) expect(jsonText(value)).toBe(JSON.stringify(value));
  const upper = (_: string, item: unknown) => (typeof item === 'string' ? item.toUpperCase() : item);
  expect(jsonText({ a: ['x'] }, upper, 2)).toBe(JSON.stringify({ a: ['x'] }, upper, 2));
  expect(() => jsonText(7n)).toThrow(TypeError);
});

test('what an older version stored is read with U+FFFD for half characters', () => {
  expect(storedJson(JSON.stringify({ [high]: [`a${low}`, '\\ud83d'] }))).toEqual({ '\ufffd': ['a\ufffd', '\\ud83d'] });
  expect(() => storedJson('[')).toThrow(SyntaxError);
});

test('the JSON reader of Redis takes whatever is written, and writes it again', async () => {
  const random = seeded();
  const redis = await testRedis();
  const texts = Array.from({ length: rounds({ fast: 300, all: 10_000 }) }, () => jsonText([oddValue(random)]));
  for (const text of texts) {
    const again = await redis.eval('return cjson.encode(cjson.decode(ARGV[1]))', 0, text);
    expect(() => storedJson(String(again)), text).not.toThrow();
  }
});

test('a clean value has whole texts without NUL in all of its fields and keys, and is bounded in depth', () => {
  expect(cleanText(`a${high}\0b😀`)).toBe('a\ufffd\ufffdb😀');
  const given = JSON.parse(String.raw`{"__proto__":{"\ud83d":"\u0000"},"n":[1e400,null]}`) as unknown;
  expect(JSON.stringify(cleanJson(given))).toBe('{"__proto__":{"\ufffd":"\ufffd"},"n":[null,null]}');
  expect(JSON.stringify(cleanJson(JSON.parse(deep(maxLevels + 50)))).length).toBeLessThan(3 * maxLevels);
});

test('a value that is clean already is the same value', () => {
  const value = { a: [{ b: 'ü😀', c: Number.NaN }], d: new Date(0) };
  expect(cleanJson(value)).toBe(value);
});

test.each([
  ['{"a":1,"a":1}', true],
  ['{"a":{"b":[{"c":1,"d":2,"c":3}]}}', true],
  [String.raw`{"a":1,"\u0061":2}`, true],
  ['{"__proto__":1,"__proto__":{"a":1,"b":2}}', true],
  ['{"a":{"b":1},"a":{"b":1,"c":{"d":2}}}', true],
  ['{"a":{"a":[{"a":1},{"a":1}]},"b":"a"}', false],
  [String.raw`{"a:\"":"b:\\","c":":{\":"}`, false],
  ['{"__proto__":{"a":1}}', false],
  ['[":",{"a" : 1,\t"b"\n: []}, 1]', false],
  ['"a:b"', false],
])('a JSON text that has a key of an object twice is known: %s', (text, repeats) => {
  expect(repeatsKey(text)).toBe(repeats);
});

test('a text that is no JSON has no keys to look at', () => {
  expect(() => repeatsKey('{"a":')).toThrow(SyntaxError);
});
