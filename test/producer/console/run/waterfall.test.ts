import { expect, test } from 'vitest';
import {
  parentsIn,
  visibleRows,
  waterfallOf,
  type Row,
} from '../../../../src/producer/console/views/run/record/waterfall.ts';
import type { RunEvent } from '../../../../src/shared/contract/event.ts';
import type { RunSteps } from '../../../../src/shared/contract/archive/run-steps.ts';
import { at, attempt, call, recoveredRun, run, step } from './recovered-run.ts';

const nowMs = Date.parse(at(60_000));

function rowsOf(steps: RunSteps, events: readonly RunEvent[] = [], opened = new Map<string, RunSteps>()) {
  return waterfallOf({ steps, events, nowMs, opened });
}

const drawn = ({ rows, fromMs }: ReturnType<typeof rowsOf>) =>
  rows.map((row) => `${'  '.repeat(row.depth)}${row.kind} ${row.label} ${row.fromMs - fromMs}-${row.toMs - fromMs}`);

test('a run is a tree of what it waited for, its stays on workers, steps, attempts, calls and children', () => {
  expect(drawn(rowsOf(recoveredRun()))).toEqual([
    'queue waits in the queue 0-500',
    'segment on worker-a 500-3000',
    '  step step 1 600-16000',
    '    attempt gpt-5.2-mini 600-800',
    '    attempt gpt-5.2-nano 800-1800',
    '    call lookup_order 6100-6300',
    '      child clerk 6150-6250',
    '    call refund 15100-15900',
    'recovery worker-a died 3000-6000',
    'segment on worker-b 6000-9000',
    'wait waits for an approval 9000-15000',
    'segment on worker-b 15000-20000',
    '  step step 2 16100-19000',
    '    attempt gpt-5.2-mini 16100-17100',
    'child judge 17000-18000',
  ]);
});

test('a worker that died is named, and which one went on from where', () => {
  const { rows } = rowsOf(recoveredRun());
  const find = (kind: Row['kind']) => rows.find((row) => row.kind === kind);
  expect(find('recovery')).toMatchObject({
    label: 'worker-a died',
    note: 'worker-b goes on after 0 finished steps',
    tone: 'bad',
  });
  expect(find('segment')).toMatchObject({ note: 'the worker died', tone: 'bad' });
  expect(find('wait')).toMatchObject({ note: 'refund · by anna', tone: 'wait' });
  const handedOver = recoveredRun();
  handedOver.segments[0] = { worker: 'worker-a', from: at(500), to: at(3_000), end: 'handed_over' };
  expect(rowsOf(handedOver).rows.find(({ kind }) => kind === 'recovery')).toMatchObject({
    label: 'worker-a handed the run over',
    tone: 'plain',
  });
});

test('attempts stand where the log says that they were', () => {
  const event = { type: 'llm.call', requestId: 'r:s1:a1', timestamp: at(5_000) } as RunEvent;
  const steps = run({ steps: [step({ startedAt: at(100), attempts: [attempt()] })] });
  const row = rowsOf(steps, [event]).rows.find(({ kind }) => kind === 'attempt');
  expect([row?.fromMs, row?.toMs]).toEqual([Date.parse(at(4_000)), Date.parse(at(5_000))]);
});

test('what has not ended goes on until now', () => {
  const steps = run({
    status: 'running',
    startedAt: at(100),
    segments: [{ worker: 'worker-a', from: at(100) }],
    steps: [step({ startedAt: at(200), attempts: [], calls: [call({ startedAt: at(300) })] })],
  });
  for (const row of rowsOf(steps).rows.slice(1)) expect(row).toMatchObject({ tone: 'open', toMs: nowMs });
  expect(rowsOf(run({ status: 'queued' })).rows[0]).toMatchObject({ kind: 'queue', tone: 'open', toMs: nowMs });
});

test('a child that was opened has its own rows below it, and its own children theirs', () => {
  const grandchild = { runId: 'g', agent: 'typist', status: 'completed' as const };
  const clerk = run({
    runId: 'c1',
    queuedAt: at(6_150),
    startedAt: at(6_160),
    children: [grandchild],
    steps: [step()],
  });
  const { rows } = rowsOf(recoveredRun(), [], new Map([['c1', clerk]]));
  const from = rows.findIndex(({ runId }) => runId === 'c1');
  expect(rows.slice(from, from + 5).map(({ kind, depth }) => [kind, depth])).toEqual([
    ['child', 3],
    ['queue', 4],
    ['step', 4],
    ['attempt', 5],
    ['child', 4],
  ]);
  expect(new Set(rows.map(({ id }) => id)).size).toBe(rows.length);
});

test('what belongs to a closed row is not seen', () => {
  const { rows } = rowsOf(recoveredRun());
  const stay = rows.find(({ kind }) => kind === 'segment') as Row;
  expect(parentsIn(rows).has(stay.id)).toBe(true);
  const seen = visibleRows(rows, new Set([stay.id]));
  expect(seen.map(({ kind }) => kind).slice(0, 4)).toEqual(['queue', 'segment', 'recovery', 'segment']);
});

test('calls of two steps are kept apart although their model gave both one id', () => {
  const calls = [call({ toolCallId: 'call_0' })];
  const { rows } = rowsOf(run({ steps: [step({ calls }), step({ stepNumber: 2, calls })] }));
  const made = rows.filter(({ kind }) => kind === 'call');
  expect(new Set(made.map(({ id }) => id)).size).toBe(2);
  expect(new Set(made.map(({ anchor }) => anchor)).size).toBe(2);
});

test('attempts are numbered within their step, and a summary is no attempt at an answer', () => {
  const first = step({ attempts: [attempt({ attemptNumber: 1 })] });
  const summary = attempt({ attemptNumber: 2, purpose: 'summary' });
  const failed = attempt({ attemptNumber: 3, outcome: 'failed' });
  const second = step({ stepNumber: 2, attempts: [summary, failed, attempt({ attemptNumber: 4 })] });
  const made = rowsOf(run({ steps: [first, second] })).rows.filter(({ kind }) => kind === 'attempt');
  expect(made.map(({ note }) => note)).toEqual(['', 'failed', 'attempt 2']);
});
