import { expect, test } from 'vitest';
import { retryAfterMs, retryDelayMs } from '../../../src/worker/llm/errors.ts';

const indexes = [0, 1, 2, 3, 4, 5, 6, 40];
const steady = () => 0;

test('exponential waits double from 250 ms to 8 s', () => {
  expect(indexes.map((i) => retryDelayMs(i, 'exponential', undefined, steady))).toEqual([
    250, 500, 1_000, 2_000, 4_000, 8_000, 8_000, 8_000,
  ]);
});

test('linear waits grow by 250 ms to 8 s', () => {
  expect(indexes.map((i) => retryDelayMs(i, 'linear', undefined, steady))).toEqual([
    250, 500, 750, 1_000, 1_250, 1_500, 1_750, 8_000,
  ]);
});

test('the wish of the provider counts when it is longer, up to a minute', () => {
  expect(retryDelayMs(0, 'exponential', 3_000, steady)).toBe(3_000);
  expect(retryDelayMs(4, 'exponential', 3_000, steady)).toBe(4_000);
  expect(retryDelayMs(0, 'exponential', 86_400_000, steady)).toBe(60_000);
});

test('chance only adds: at most a fifth and at most half a second', () => {
  expect(retryDelayMs(0, 'exponential', undefined, () => 1)).toBe(300);
  expect(retryDelayMs(0, 'exponential', 60_000, () => 1)).toBe(60_500);
});

const now = Date.parse('2026-11-01T00:00:00Z');

test.each([
  [{ 'retry-after': '1' }, 1_000],
  [{ 'retry-after': '0' }, 0],
  [{ 'retry-after': '1.5' }, 1_500],
  [{ 'retry-after': '86400' }, 60_000],
  [{ 'retry-after': 'Sun, 01 Nov 2026 00:00:07 GMT' }, 7_000],
  [{ 'retry-after': 'Sun, 01 Nov 2020 00:00:07 GMT' }, 0],
  [{ 'retry-after': 'Sun, 01 Nov 2030 00:00:07 GMT' }, 60_000],
  [{ 'retry-after': 'soon' }, undefined],
  [{ 'retry-after': '-5' }, undefined],
  [{ 'retry-after': '' }, undefined],
  [{ 'retry-after': '1e9' }, undefined],
  [{ 'retry-after-ms': '250', 'retry-after': '9' }, 250],
  [{ 'retry-after-ms': 'x', 'retry-after': '9' }, 9_000],
  [{}, undefined],
])('the headers %j ask for %s ms', (headers, expected) => {
  expect(retryAfterMs(new Headers(headers as Record<string, string>), now)).toBe(expected);
});
