import { expect, test, vi, onTestFinished } from 'vitest';
import { day, since, until } from '../../../../src/producer/cli/options/when.ts';

const now = Date.parse('2026-11-23T10:20:30.500Z');

test.each([
  ['today', '2026-11-23'],
  ['yesterday', '2026-11-22'],
  ['3d', '2026-11-20'],
  ['2w', '2026-11-09'],
  ['2026-02-28', '2026-02-28'],
])('the day %s is %s in UTC', (text, expected) => {
  expect(day(text, now)).toBe(expected);
});

test.each(['monday', '2026-02-30', '2h', '', '-1d', 'tomorrow'])('%j is no day', (text) => {
  expect(() => day(text, now)).toThrow('Not a day: YYYY-MM-DD, today, yesterday, or 3d, 2w ago. Days are UTC.');
});

test.each([
  ['90s', '2026-11-23T10:19:00.500Z', '2026-11-23T10:19:00.500Z'],
  ['2h', '2026-11-23T08:20:30.500Z', '2026-11-23T08:20:30.500Z'],
  ['1w', '2026-11-16T10:20:30.500Z', '2026-11-16T10:20:30.500Z'],
  ['yesterday', '2026-11-22T00:00:00.000Z', '2026-11-23T00:00:00.000Z'],
  ['2026-11-20', '2026-11-20T00:00:00.000Z', '2026-11-21T00:00:00.000Z'],
  ['9999-12-31', '9999-12-31T00:00:00.000Z', '9999-12-31T23:59:59.999Z'],
  ['2026-11-20T09:00', '2026-11-20T09:00:00.000Z', '2026-11-20T09:00:00.000Z'],
  ['2026-11-20T09:00:00+02:00', '2026-11-20T07:00:00.000Z', '2026-11-20T07:00:00.000Z'],
])('since %s is from %s, and until it is before %s', (text, from, to) => {
  vi.useFakeTimers({ now, toFake: ['Date'] });
  onTestFinished(() => void vi.useRealTimers());
  expect([since(text), until(text)]).toEqual([from, to]);
});

test.each(['soon', '5', '3 days', '2026-13-01', '9999999999d'])('%j is no time', (text) => {
  expect(() => since(text)).toThrow('Without a zone it is UTC.');
});
