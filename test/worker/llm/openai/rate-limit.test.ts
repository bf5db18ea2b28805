import { expect, test } from 'vitest';
import { rateLimitOf } from '../../../../src/worker/llm/openai/transport.ts';

const resetOf = (value: string) => rateLimitOf(new Headers({ 'x-ratelimit-reset-tokens': value }))?.tokens?.resetMs;

test.each([
  ['1s', 1_000],
  ['6m0s', 360_000],
  ['120ms', 120],
  ['1h2m3.5s', 3_723_500],
  ['0s', 0],
  ['12.5', 12_500],
  ['7', 7_000],
  ['999d', 86_400_000],
  ['1790000000', 86_400_000],
])('a reset of %s is %i milliseconds', (text, ms) => {
  expect(resetOf(text)).toBe(ms);
});

test.each(['', 'soon', '-1s', '1 s', 's', '5x', '2026-09-23T00:00:00Z', '9'.repeat(400)])(
  'a reset of %j counts as not sent',
  (text) => {
    expect(resetOf(text)).toBeUndefined();
  },
);

test('requests and tokens are kept apart, and only what was sent is reported', () => {
  const headers = new Headers({
    'x-ratelimit-limit-requests': '60',
    'x-ratelimit-remaining-tokens': '0',
    'x-ratelimit-limit-tokens': '-1',
    'x-ratelimit-remaining-requests': 'many',
  });
  expect(rateLimitOf(headers)).toEqual({ requests: { limit: 60 }, tokens: { remaining: 0 } });
  expect(rateLimitOf(new Headers({ 'content-type': 'text/plain' }))).toBeUndefined();
});
