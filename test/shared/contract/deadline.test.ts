import { expect, test } from 'vitest';
import { nextDeadlineOf } from '../../../src/shared/contract/deadline.ts';

const createdAt = '2026-01-02T03:04:05.000Z';
const created = Date.parse(createdAt);

test('a run has to begin within its time in the queue, counted from the end of its delay, and to end at its deadline', () => {
  const request = { queueTtlMs: 5_000, delayMs: 2_000, deadlineMs: 60_000 };
  expect(nextDeadlineOf({ createdAt, epoch: 0, request })).toBe(created + 7_000);
  expect(nextDeadlineOf({ createdAt, epoch: 1, request }), 'once it has begun').toBe(created + 60_000);
  expect(nextDeadlineOf({ createdAt, epoch: 1, request: { queueTtlMs: 5_000 } })).toBeUndefined();
});

test('a run that is redriven has the times that its record names', () => {
  const request = { queueTtlMs: 5_000, deadlineMs: 60_000 };
  const [startBy, deadlineAt] = [8_000, 9_000].map((ms) => new Date(created + ms).toISOString());
  expect(nextDeadlineOf({ createdAt, epoch: 0, request, startBy, deadlineAt })).toBe(created + 8_000);
  expect(nextDeadlineOf({ createdAt, epoch: 1, request, startBy, deadlineAt })).toBe(created + 9_000);
});
