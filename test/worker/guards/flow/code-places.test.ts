import * as fc from 'fast-check';
import { expect, inject, test } from 'vitest';
import { codePlaces } from '../../../../src/worker/guards/flow/code-places.ts';

const base64 = /[A-Za-z0-9+/_-]{8,}(?:\s{1,2}[A-Za-z0-9+/_-]{40,})*={0,2}/g;
const base32 = /[A-Z2-7]{16,}={0,6}/gi;
const hex = /(?:(?:0x|\\x|%)?[0-9a-f]{2}[\s:,;|._-]{0,2}){7,}(?:0x|\\x|%)?[0-9a-f]{2}/gi;
const decimal = /(?:\b\d{2,5}[^\d.]{1,8}){7,}\d{2,5}\b/;
const spaced = /(?:[A-Za-z0-9+/_-][ .,|]){15,}[A-Za-z0-9+/_=-]+/;
const escaped = /(?:\\[0-9a-f]{1,6}\s?){8,}/i;

const pieces = [
  'a',
  'b',
  'F',
  '9',
  '0',
  '1',
  ' ',
  '  ',
  '\n',
  '=',
  '+',
  '/',
  '-',
  '%',
  '\\',
  '\\x',
  '0x',
  '.',
  ',',
  '|',
];
const longer = ['g', 'Z', 'é', '中', 'aGVsbG8gd29ybGQgdGhpcyBpcyBh', '0123456789abcdef', '12 34 ', 'a b c d '];
const piece = fc.tuple(fc.constantFrom(...pieces, ...longer), fc.integer({ min: 1, max: 24 }), fc.boolean());
const text = fc
  .array(piece, { maxLength: 40 })
  .map((all) => all.map(([one, times, often]) => (often ? one.repeat(times) : one)).join(''));

test('the pieces that may be codes hold every code that a search by pattern finds', () => {
  const plain = (token: string) => token.replace(/=+$/, '');
  const within = (parts: readonly string[], pattern: RegExp) => parts.flatMap((part) => part.match(pattern) ?? []);
  fc.assert(
    fc.property(text, (given) => {
      const places = codePlaces(given);
      expect(places.base64.map(plain)).toEqual((given.match(base64) ?? []).map(plain));
      expect(within(places.long, base32)).toEqual(given.match(base32) ?? []);
      expect(within(places.hex, hex)).toEqual(given.match(hex) ?? []);
      expect(places.hasNumbers || !decimal.test(given)).toBe(true);
      expect(places.hasSpaced || !spaced.test(given)).toBe(true);
      expect(places.hasEscapes || !escaped.test(given)).toBe(true);
    }),
    { numRuns: 2_000, seed: inject('seed') },
  );
});

test('a page of plain words has no place for a code', () => {
  expect(codePlaces('Good day, the order was sent on Friday. '.repeat(500))).toEqual({
    base64: [],
    long: [],
    hex: [],
    hasNumbers: false,
    hasSpaced: false,
    hasEscapes: false,
  });
});
