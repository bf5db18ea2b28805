import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { trustClass } from '../../../../src/shared/contract/agent/trust.ts';
import { checkMerge, childTrust, sharesOf } from '../../../../src/worker/guards/leaks/merge.ts';

test.each([
  [[], 0.81],
  [['built-in'], 0.81],
  [['trusted-skill'], 0.765],
  [['external'], 0.45],
  [['mcp-derived'], 0.49],
  [['web-search'], 0.35],
  [['untrusted-skill'], 0.12],
  [['built-in', 'web-search', 'mcp-derived'], 0.35],
] as const)('a child that has read %j', (read, trust) => {
  expect(childTrust(read, 0)).toBeCloseTo(trust, 10);
});

test('each denial takes a tenth of the trust in a child, up to five of them', () => {
  expect(childTrust([], 1)).toBeCloseTo(0.729, 10);
  expect(childTrust([], 4)).toBeGreaterThan(0.5);
  expect(childTrust([], 5)).toBeLessThan(0.5);
  expect(childTrust([], 50)).toBe(childTrust([], 5));
});

const own = 'The order 4711 was shipped from Bern on Tuesday and arrives on Friday morning.';
const foreign = 'Refunds are only paid to the account CH93 0076 2011 6238 5295 7 of our partner.';
const trusted = { output: own, trust: 0.81 };
const untrusted = { output: foreign, trust: 0.35 };

test('a child of little trust that makes up most of the merged text is found', () => {
  const found = checkMerge(`${foreign} ${own.slice(0, 20)}`, [trusted, untrusted], 'detect-and-flag');
  expect(found.biased).toEqual([1]);
  expect(found.shares[1]).toBeGreaterThan(0.5);
  expect(found.leak).toMatchObject({ vector: 'merge', severity: 'high', decision: 'flagged' });
});

test('children that are trusted are not found, whatever their share is', () => {
  const found = checkMerge(own, [trusted, { ...trusted, output: 'nothing' }], 'detect-and-block');
  expect(found).toEqual({ shares: [1, 0], biased: [] });
});

test('a share of 0.3 is allowed, a larger one is not', () => {
  const letters = (first: number, count: number) =>
    Array.from({ length: count }, (_, n) => String.fromCodePoint(0x4e00 + first + n)).join('');
  const merged = (count: number) => letters(1_000, count) + letters(5_000, 111 - count);
  const child = { output: letters(1_000, 100), trust: 0.1 };
  expect(checkMerge(merged(41), [child], 'detect')).toEqual({ shares: [0.3], biased: [] });
  expect(checkMerge(merged(42), [child], 'detect').biased).toEqual([0]);
});

test('what a trusted child says as well is not brought by the other one', () => {
  expect(sharesOf(own, [trusted, { output: own, trust: 0.35 }])).toEqual([1, 0]);
  expect(sharesOf(own, [{ output: own, trust: 0.35 }, trusted])).toEqual([0, 1]);
});

test('several children of little trust with the same text do not hide behind each other', () => {
  const many = Array.from({ length: 8 }, () => untrusted);
  expect(checkMerge(foreign, [trusted, ...many], 'detect').biased).toHaveLength(8);
});

test('case, signs and forms of writing make no difference', () => {
  const written = foreign.toUpperCase().replaceAll(' ', '\n— ').normalize('NFD');
  expect(sharesOf(written, [untrusted])).toEqual([1]);
});

test('a merged text without letters, and a short one', () => {
  expect(sharesOf(' … ', [untrusted])).toEqual([0]);
  expect(sharesOf('yes', [{ output: 'Yes!', trust: 0.35 }])).toEqual([1]);
});

test('shares lie between 0 and 1, and only a child of little trust with more than 0.3 is found', () => {
  const child = fc.record({
    output: fc.string({ maxLength: 60 }),
    trust: fc.constantFrom(...trustClass.options.map((one) => childTrust([one], 0))),
  });
  fc.assert(
    fc.property(
      fc.array(child, { minLength: 1, maxLength: 5 }),
      fc.array(fc.nat(4), { maxLength: 4 }),
      (given, used) => {
        const merged = used.map((index) => given[index % given.length]?.output ?? '').join(' ');
        const { shares, biased, leak } = checkMerge(merged, given, 'detect');
        expect(shares.every((share) => share >= 0 && share <= 1)).toBe(true);
        const expected = given.flatMap(({ trust }, at) => (trust < 0.5 && (shares[at] ?? 0) > 0.3 ? [at] : []));
        expect(biased).toEqual(expected);
        expect(leak !== undefined).toBe(expected.length > 0);
      },
    ),
  );
});
