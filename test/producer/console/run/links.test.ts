import { expect, test } from 'vitest';
import { anchorIn, mediaHref } from '../../../../src/producer/console/views/run/record/links.ts';
import { handleOf } from '../../../../src/shared/contract/media.ts';

test('a handle leads to the bytes behind it', () => {
  const sha256 = 'a'.repeat(64);
  expect(mediaHref(handleOf(sha256))).toBe(`/v1/media/${sha256}`);
});

test('a hash points at a part of the page, and one that is no text at none', () => {
  expect(anchorIn('#call-r-1-c%201')).toBe('call-r-1-c 1');
  expect([anchorIn(''), anchorIn('#%'), anchorIn('#%E0%A4')]).toEqual(['', '', '']);
});
