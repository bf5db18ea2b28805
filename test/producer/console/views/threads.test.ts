import { expect, test } from 'vitest';
import { afterEvents, liveOf, mergedItems } from '../../../../src/producer/console/views/threads/live.ts';
import type { RunEvent } from '../../../../src/shared/contract/event.ts';
import type { ThreadItem } from '../../../../src/shared/contract/thread/thread-items.ts';

let sequenceNumber = 0;
const event = (type: string, body: object = {}) =>
  ({ v: 1, runId: 'r', sequenceNumber: ++sequenceNumber, timestamp: '', type, ...body }) as unknown as RunEvent;
const delta = (text: string) => event('text.delta', { delta: text, model: 'm' });

test('text grows with its deltas, and is forgotten where a step begins again', () => {
  const begun = afterEvents(liveOf('r'), [event('step.start'), delta('one '), delta('two')]);
  expect(begun.text).toBe('one two');
  expect(afterEvents(begun, [event('step.reset'), delta('one')]).text).toBe('one');
  const done = afterEvents(begun, [event('step.end')]);
  expect(done).toMatchObject({ steps: 1, isStale: true });
  expect(afterEvents(done, [event('step.start')])).toMatchObject({ text: '', isStale: false });
});

test('calls come and go, and a wait ends them', () => {
  const call = { toolCallId: 'c', toolName: 'look' };
  const calling = afterEvents(liveOf('r'), [event('tool.execute.start', call)]);
  expect([...calling.calls.values()]).toEqual(['look']);
  expect(afterEvents(calling, [event('tool.execute.end', call)]).calls.size).toBe(0);
  const waits = afterEvents(calling, [event('run.suspended', { reason: 'approval' })]);
  expect(waits).toMatchObject({ waits: 'approval', calls: new Map() });
  expect(afterEvents(waits, [event('run.resumed')]).waits).toBeUndefined();
});

test('the end says how it ended', () => {
  const error = { code: 'turn_limit', message: 'too many steps' };
  expect(afterEvents(liveOf('r'), [event('run.failed', { error })]).end).toEqual({
    status: 'failed',
    problem: 'turn_limit: too many steps',
  });
  expect(afterEvents(liveOf('r'), [event('run.completed')]).end?.status).toBe('completed');
});

const said = (text: string, seq?: number): ThreadItem => ({
  kind: 'message',
  role: 'user',
  runId: 'r',
  at: '',
  text,
  ...(seq === undefined ? { live: true as const } : { seq }),
});

test('a page replaces what is live and what it has itself, and older items stay', () => {
  const known = [said('a', 1), said('b', 2), said('live')];
  const page = [said('b', 2), said('c', 3), said('more live')];
  expect(mergedItems(known, page)).toEqual([said('a', 1), ...page]);
  expect(mergedItems([said('older', 1)], known.slice(1))).toEqual([said('older', 1), ...known.slice(1)]);
});
