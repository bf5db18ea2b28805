import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { clip, keepEnds } from '../../../../src/shared/base/text.ts';
import { boundOf, maxResultBytes } from '../../../../src/worker/tools/execute/fit.ts';

/** The text within the bound of a tool that has no ceiling of its own. */
function boundText(given: string, maxResultTokens: number): string {
  return keepEnds(given, boundOf({ maxResultTokens }));
}

/** Characters of one to four bytes, and one half of a character. */
function text(minLength: number, maxLength: number): fc.Arbitrary<string> {
  const character = fc.constantFrom('a', 'é', '漢', '😀', '\ud800');
  return fc.array(character, { minLength, maxLength, size: 'max' }).map((characters) => characters.join(''));
}

test('a text within the bound stays as it is', () => {
  expect(boundText('short', 100)).toBe('short');
  expect(boundText('x'.repeat(400), 100)).toBe('x'.repeat(400));
});

test('a longer text keeps its beginning and its end around a marker that says how long it was', () => {
  const cut = boundText(`begin${'x'.repeat(5_000)}end`, 100);
  expect(cut).toMatch(/^beginx+\n\[… 5008 bytes in all, the middle was cut …\]\nx+end$/);
  expect(Buffer.byteLength(cut)).toBeLessThanOrEqual(400);
});

test('a bound of 0 and a generous bound both end at the hard ceiling', () => {
  for (const tokens of [0, 1_000_000]) {
    expect(Buffer.byteLength(boundText('x'.repeat(1_000_000), tokens))).toBeLessThanOrEqual(maxResultBytes);
    expect(boundText('x'.repeat(maxResultBytes), tokens)).toHaveLength(maxResultBytes);
  }
});

test('no cut leaves half a character or exceeds the bound', () => {
  fc.assert(
    fc.property(text(0, 800), fc.integer({ min: 20, max: 300 }), (given, tokens) => {
      const cut = boundText(given, tokens);
      expect(cut.isWellFormed()).toBe(true);
      expect(Buffer.byteLength(cut)).toBeLessThanOrEqual(tokens * 4);
      const fits = Buffer.byteLength(given) <= tokens * 4;
      expect(cut === given.toWellFormed()).toBe(fits);
    }),
  );
});

test('what is kept is a beginning and an end of the text', () => {
  fc.assert(
    fc.property(text(500, 1_000), (given) => {
      const parts = boundText(given, 50).split(/\n\[… \d+ bytes in all, the middle was cut …\]\n/);
      expect(parts).toHaveLength(2);
      expect(given.toWellFormed().startsWith(parts[0] ?? '?')).toBe(true);
      expect(given.toWellFormed().endsWith(parts[1] ?? '?')).toBe(true);
    }),
  );
});

test('clip does not split a character of two units', () => {
  expect(clip('ab😀', 3)).toBe('ab');
  expect(clip('ab😀', 4)).toBe('ab😀');
  expect(clip('abc', 5)).toBe('abc');
});
