import { expect, test } from 'vitest';
import {
  matching,
  maxEvents,
  noEvents,
  typesIn,
  withEvents,
} from '../../../../src/producer/console/views/run/record/event-list.ts';
import type { RunEvent } from '../../../../src/shared/contract/event.ts';

const event = (sequenceNumber: number, type = 'agent.thinking', body: object = {}) =>
  ({ v: 1, runId: 'r', sequenceNumber, timestamp: '', type, ...body }) as RunEvent;

test('what a stream sends again is listed once, and deltas only move it on', () => {
  const first = withEvents(noEvents, [event(1), event(2), event(3, 'text.delta', { delta: 'a', model: 'm' })]);
  const again = withEvents(first, [event(2), event(3), event(4)]);
  expect(again.events.map(({ sequenceNumber }) => sequenceNumber)).toEqual([1, 2, 4]);
  expect(again.lastSequence).toBe(4);
  expect(withEvents(again, [event(4)])).toBe(again);
});

test('the list has a bound, and says how many it let go', () => {
  const many = Array.from({ length: maxEvents + 3 }, (_, index) => event(index + 1));
  const list = withEvents(noEvents, many);
  expect(list.events).toHaveLength(maxEvents);
  expect(list).toMatchObject({ dropped: 3, lastSequence: maxEvents + 3 });
  expect(list.events[0]?.sequenceNumber).toBe(4);
});

test('events are found by type and by what they say', () => {
  const events = [
    event(1, 'run.queued'),
    event(2, 'tool.call.start', { toolName: 'lookup_order' }),
    event(3, 'tool.call.start', { toolName: 'refund' }),
  ];
  expect(typesIn(events)).toEqual([
    ['tool.call.start', 2],
    ['run.queued', 1],
  ]);
  expect(matching(events, 'tool.call.start', '').length).toBe(2);
  expect(matching(events, '', ' REFUND ').map(({ sequenceNumber }) => sequenceNumber)).toEqual([3]);
});

test('what comes in masses leaves the list of what is notable as it is', () => {
  const masses = ['step.start', 'tool.call.start', 'tool.execute.end', 'text.delta', 'subagent.event'];
  const before = withEvents(noEvents, [event(1, 'run.started'), event(2, 'llm.call')]);
  const after = withEvents(
    before,
    masses.map((type, at) => event(3 + at, type)),
  );
  expect(after.notable).toBe(before.notable);
  const last = withEvents(after, [event(9, 'tool.outcome_unknown')]);
  expect(last.notable.map(({ sequenceNumber }) => sequenceNumber)).toEqual([1, 2, 9]);
});
