import { expect, test } from 'vitest';
import { foldedAxis, plainAxis } from '../../../../src/producer/console/views/run/record/axis.ts';
import type { Row, Waterfall } from '../../../../src/producer/console/views/run/record/waterfall.ts';

const row = (kind: Row['kind'], fromMs: number, toMs: number) => ({ kind, fromMs, toMs }) as Row;

/** Ten seconds of work on each side of ten minutes of waiting. */
const paused: Waterfall = {
  fromMs: 1_000,
  toMs: 621_000,
  rows: [
    row('step', 1_000, 621_000),
    row('attempt', 1_000, 11_000),
    row('wait', 11_000, 611_000),
    row('call', 611_000, 621_000),
  ],
};

test('a long pause takes little room, and each half of the work nearly one half', () => {
  const { at, folds } = foldedAxis(paused);
  expect(folds).toEqual([{ fromMs: 11_000, toMs: 611_000 }]);
  expect(at(1_000)).toBe(0);
  expect(at(11_000)).toBeCloseTo(0.485);
  expect(at(611_000)).toBeCloseTo(0.515);
  expect(at(621_000)).toBeCloseTo(1);
});

test('a place is the time that is drawn there', () => {
  for (const axis of [foldedAxis(paused), plainAxis(paused)])
    for (const ms of [1_000, 6_000, 11_000, 300_000, 611_000, 615_500, 621_000])
      expect(axis.timeAt(axis.at(ms))).toBeCloseTo(ms, 3);
});

test('without a long pause the axis is as it was', () => {
  const busy = { ...paused, rows: [row('attempt', 1_000, 300_000), row('child', 301_000, 621_000)] };
  const { at, folds } = foldedAxis(busy);
  expect([folds, at(311_000)]).toEqual([[], 0.5]);
});

test('what lies outside of it is drawn at its ends', () => {
  const { at } = foldedAxis(paused);
  expect([at(0), at(10_000_000)]).toEqual([0, expect.closeTo(1)]);
});
