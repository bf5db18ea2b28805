import { expect, test } from 'vitest';
import type { FleetView } from '../../../src/shared/contract/report/fleet.ts';
import { findingsIn, findingsOf, placeOf, verdictOf } from '../../../src/producer/console/views/fleet/verdict.ts';

const worker = {
  name: 'w',
  version: '1',
  queues: ['runs'],
  concurrency: 1,
  active: 0,
  heartbeatAgeMs: 10,
  runs: [],
};
const queue = { waiting: 0, active: 0, delayed: 0, failed: 0, workers: 1 };
const healthy: FleetView = { queues: { runs: queue }, providers: [], workers: [worker], limits: [], breakers: [] };

test('a verdict counts what needs attention apart from what can wait', () => {
  const fail = { name: 'workers', level: 'fail', text: 'none' } as const;
  const warn = { name: 'clock', level: 'warn', text: 'late' } as const;
  const ok = { name: 'redis', level: 'ok', text: '7' } as const;
  expect(findingsIn([ok, warn, fail, ok])).toEqual([fail, warn]);
  expect([[], [warn], [warn, warn], [fail], [fail, fail, warn]].map(verdictOf)).toEqual([
    { tone: 'good', text: 'Healthy' },
    { tone: 'wait', text: 'Works, with 1 warning' },
    { tone: 'wait', text: 'Works, with 2 warnings' },
    { tone: 'bad', text: '1 thing needs attention' },
    { tone: 'bad', text: '2 things need attention, and 1 warning' },
  ]);
});

test('without doctor the verdict comes from what everybody sees of the fleet', () => {
  expect(findingsOf(healthy)).toEqual([]);
  expect(findingsOf({ ...healthy, workers: [] })).toMatchObject([{ level: 'fail', name: 'workers' }]);
  expect(
    findingsOf({
      ...healthy,
      workers: [worker, { ...worker, name: 'x', heartbeatAgeMs: 12_000 }],
      queues: { runs: queue, slow: { ...queue, workers: 0, delayed: 1 }, quarantine: { ...queue, workers: 0 } },
      breakers: [
        { target: 'tool:pay', failures: 5, openForMs: 1_000 },
        { target: 'tool:look', failures: 1 },
      ],
      providers: [
        { id: 'a', kind: 'custom', hasKey: true, lastError: { kind: 'auth', model: 'm', at: '2' }, lastAnswerAt: '1' },
        { id: 'b', kind: 'custom', hasKey: true, lastError: { kind: 'auth', model: 'm', at: '2' }, lastAnswerAt: '3' },
      ],
    }),
  ).toEqual([
    { level: 'fail', name: 'queues', text: 'runs wait where no worker serves: slow' },
    { level: 'fail', name: 'breakers', text: 'not called, because they failed: tool:pay' },
    { level: 'warn', name: 'workers', text: 'no sign of life from: x' },
    { level: 'warn', name: 'providers', text: 'the last call failed at: a' },
  ]);
});

test('a line of doctor leads to where one goes on', () => {
  expect(placeOf('failed jobs')?.[0]).toBe('/runs?status=failed');
  expect(placeOf('queue runs')?.[0]).toBe('#queues-title');
  expect(placeOf('provider openai')?.[0]).toBe('#providers-title');
  expect(placeOf('provider limits')?.[0]).toBe('#limits-title');
  expect(placeOf('clock')).toBeUndefined();
});
