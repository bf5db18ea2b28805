import { expect, test } from 'vitest';
import { maxPreviewChars, previewOf } from '../../../src/shared/contract/run.ts';

test('an input begins on one line, without half a character', () => {
  expect(previewOf('  Where\n\tis   order 7? ')).toBe('Where is order 7?');
  expect(previewOf(' \n ')).toBe('');
  const long = previewOf(`${'x'.repeat(maxPreviewChars - 1)}😀`);
  expect([long.length, long.isWellFormed()]).toEqual([maxPreviewChars - 1, true]);
  // So much white space that the end of what is looked at is shown.
  const sparse = previewOf(`a${' '.repeat(4 * maxPreviewChars - 2)}😀 and more`);
  expect(sparse.isWellFormed()).toBe(true);
});
