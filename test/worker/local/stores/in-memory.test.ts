import { expect, test } from 'vitest';
import { systemClock } from '../../../../src/shared/base/clock.ts';
import type { CancelRequest } from '../../../../src/shared/contract/control.ts';
import { eventSchema, type RunEvent } from '../../../../src/shared/contract/event.ts';
import { createInMemoryPorts } from '../../../../src/worker/local/stores/in-memory.ts';
import { aRecord, aTerminalCommit, delta } from '../../../contract/run-fixtures.ts';
import { claimed } from '../../../contract/store-world.ts';

const cancel: CancelRequest = { drain: false, onPendingApprovals: 'deny' };

test('creating a run adds an event to its log, and creating it again changes nothing', () => {
  const ports = createInMemoryPorts();
  const received: (readonly RunEvent[])[] = [];
  ports.onEvents((_, events) => received.push(events));
  const record = aRecord({ request: { agent: 'support', input: 'hi', thread: 't1' } });
  ports.create(record);
  ports.create({ ...record, tenant: 'other' });
  expect(ports.events(record.runId)).toMatchObject([
    { type: 'run.queued', sequenceNumber: 1, agentId: 'support', threadId: 't1' },
  ]);
  expect(ports.events(record.runId).map((event) => eventSchema.safeParse(event).success)).toEqual([true]);
  expect(received).toEqual([ports.events(record.runId)]);
});

test('a cancel wakes its listeners and is refused once the run has ended', async () => {
  const ports = createInMemoryPorts();
  const record = aRecord();
  const { runId } = record;
  const received: unknown[] = [];
  const registration = ports.control.onCancel((...asked) => received.push(asked));
  expect(ports.cancel(runId, cancel)).toBe(false);
  ports.create(record);
  expect(ports.cancel(runId, cancel)).toBe(true);
  registration[Symbol.dispose]();
  expect(ports.cancel(runId, cancel)).toBe(true);
  expect(received).toEqual([[runId, cancel]]);
  const { owner } = await claimed(ports, runId);
  await ports.runs.commit({ runId, owner }, aTerminalCommit(runId, 3));
  expect(ports.cancel(runId, cancel)).toBe(false);
});

test('a listener that throws disturbs neither the write nor other listeners', async () => {
  const ports = createInMemoryPorts();
  const record = aRecord();
  const received: string[] = [];
  ports.onEvents(() => {
    throw new Error('broken');
  });
  ports.onEvents((runId) => received.push(runId));
  ports.create(record);
  expect(await claimed(ports, record.runId)).toMatchObject({ seq: 3 });
  expect(received).toEqual([record.runId, record.runId]);
});

test('times come from the given clock', async () => {
  const ports = createInMemoryPorts({ clock: { ...systemClock, now: () => 86_400_000 } });
  const record = aRecord();
  ports.create(record);
  expect((await claimed(ports, record.runId)).record).toMatchObject({
    startedAt: '1970-01-02T00:00:00.000Z',
    updatedAt: '1970-01-02T00:00:00.000Z',
  });
});

test('of the runs that have ended the newest thousand are kept', async () => {
  const ports = createInMemoryPorts();
  const records = Array.from({ length: 1_002 }, () => aRecord());
  const open = aRecord();
  ports.create(open);
  for (const record of records) {
    ports.create(record);
    const { owner } = await claimed(ports, record.runId);
    await ports.runs.commit({ runId: record.runId, owner }, aTerminalCommit(record.runId, 3));
  }
  const kept = await Promise.all(
    [records[0], records[1], records[2], records[1_001], open].map((record) => ports.runs.load(record?.runId ?? '')),
  );
  expect(kept.map((record) => record !== undefined)).toEqual([false, false, true, true, true]);
});

test('a log keeps its newest ten thousand events', async () => {
  const ports = createInMemoryPorts();
  const record = aRecord();
  const { runId } = record;
  ports.create(record);
  const { owner } = await claimed(ports, runId);
  await ports.runs.flush(
    { runId, owner },
    3,
    Array.from({ length: 10_005 }, (_, index) => delta(runId, `${index}`)),
  );
  const events = ports.events(runId);
  expect([events.length, events[0]?.sequenceNumber, events.at(-1)?.sequenceNumber]).toEqual([10_000, 9, 10_008]);
});
