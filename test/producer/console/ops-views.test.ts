import { expect, test } from 'vitest';
import { errorRate, rowsOf } from '../../../src/producer/console/views/agents/agent-rows.ts';
import { factsOf, fallbacksOf } from '../../../src/producer/console/views/agents/definition-facts.ts';
import { wordsOf } from '../../../src/producer/console/views/audit/entry-words.ts';
import { chartsOf, formatRate, tableRows } from '../../../src/producer/console/views/fleet/chart-data.ts';
import { dayBefore, sumsBy, sumsByDay } from '../../../src/producer/console/views/money/cost-sums.ts';
import { dollarsOf } from '../../../src/producer/console/views/money/dollars.ts';

const nothing = {
  at: '2026-11-23T10:00:00.000Z',
  started: 0,
  ended: 0,
  failed: 0,
  queueWaitMs: 0,
  maxQueueWaitMs: 0,
  inputTokens: 0,
  outputTokens: 0,
  costMicrocents: 0,
  toolErrors: 0,
};

test('charts show rates, so that steps of any length compare, and no wait where no run began', () => {
  const busy = {
    ...nothing,
    started: 6,
    ended: 3,
    queueWaitMs: 1_200,
    maxQueueWaitMs: 900,
    inputTokens: 600,
    costMicrocents: 5e7,
  };
  const of = (id: string) =>
    chartsOf([nothing, busy], 30)
      .find((chart) => chart.id === id)
      ?.lines.map(({ values }) => values);
  expect(of('throughput')).toEqual([
    [0, 12],
    [0, 6],
  ]);
  expect(of('wait')).toEqual([
    [null, 200],
    [null, 900],
  ]);
  expect(of('tokens')?.[0]).toEqual([0, 20]);
  expect(of('cost')).toEqual([[0, 1e8]]);
  expect([0, 0.123, 12.34, 1_234.5].map(formatRate)).toEqual(['0', '0.12', '12.3', '1,235']);
});

test('the table beside a chart is short, newest first, and means leave out what is not known', () => {
  const times = ['a', 'b', 'c', 'd', 'e'];
  const rows = tableRows(times, [{ label: 'x', values: [1, 3, null, 5, null] }], 3);
  expect(rows).toEqual([
    { at: 'e', values: [null] },
    { at: 'c', values: [5] },
    { at: 'a', values: [2] },
  ]);
  expect(tableRows([], [], 3)).toEqual([]);
});

test('costs are summed by name, and every day of the report is there, the latest first', () => {
  const used = {
    input: 1,
    output: 1,
    cached: 0,
    cacheWrite: 0,
    total: 2,
    unconfirmedMicrocents: 0,
    unpricedAttempts: 0,
  };
  const row = (day: string, agent: string, costMicrocents: number) => ({
    day,
    agent,
    costMicrocents,
    attempts: 1,
    ...used,
  });
  const rows = [row('2026-11-21', 'a', 5), row('2026-11-21', 'b', 7), row('2026-11-23', 'a', 6)];
  expect(
    sumsBy(rows, ({ agent }) => agent).map(({ name, costMicrocents, calls }) => [name, costMicrocents, calls]),
  ).toEqual([
    ['a', 11, 2],
    ['b', 7, 1],
  ]);
  const days = sumsByDay({ rows, from: '2026-11-21', to: '2026-11-23' });
  expect(days.map(({ name, costMicrocents }) => [name, costMicrocents])).toEqual([
    ['2026-11-23', 6],
    ['2026-11-22', 0],
    ['2026-11-21', 12],
  ]);
  expect(dayBefore(6, Date.parse('2026-11-23T23:59:00Z'))).toBe('2026-11-17');
});

test('dollars are read as people type them, and nothing else is', () => {
  expect(['5', ' $1,200 ', '0.50'].map(dollarsOf)).toEqual([5, 1_200, 0.5]);
  expect(['', '0', '-1', '1e3', 'five', '1.'].map(dollarsOf)).toEqual(['', '', '', '', '', ''].map(() => undefined));
});

test('agents come with their day, those with most runs first', () => {
  const day = {
    ended: 200,
    failed: 1,
    durationMs: 0,
    toolCalls: 0,
    toolErrors: 0,
    inputTokens: 0,
    outputTokens: 0,
    costMicrocents: 0,
  };
  const agents = ['b', 'a', 'c'].map((id) => ({ id, model: 'm', tools: [] }));
  expect(rowsOf(agents, [{ agent: 'c', ...day }]).map(({ id }) => id)).toEqual(['c', 'a', 'b']);
  expect([errorRate(day), errorRate({ ended: 0, failed: 0 }), errorRate({ ended: 4, failed: 1 })]).toEqual([
    '0.5 %',
    '0 %',
    '25 %',
  ]);
});

test('a definition shows its fallbacks, limits and guards, whatever is missing in it', () => {
  expect(fallbacksOf({ fallbackModels: ['a', { model: 'b', provider: 'p' }, { odd: 1 }, null] })).toEqual(['a', 'p/b']);
  expect(fallbacksOf({})).toEqual([]);
  const facts = factsOf({
    limits: { maxSteps: 1_600 },
    trust: 'controlled',
    policies: [{}],
    approvals: { ttlMs: 60_000, approvers: 2 },
  });
  expect(facts).toEqual([
    { title: 'Limits', facts: [['maxSteps', '1,600']] },
    { title: 'Budget of a run', facts: [] },
    {
      title: 'Guards',
      facts: [
        ['Trust', 'controlled'],
        ['Approvals needed', '2'],
        ['Approvals expire', 'after 1 minute'],
        ['Policies', '1 of its own'],
      ],
    },
  ]);
  expect(factsOf({}).map(({ title }) => title)).toEqual(['Limits', 'Budget of a run', 'Guards']);
});

const words = (entry: Parameters<typeof wordsOf>[0]) => wordsOf(entry, (microcents) => `$${microcents / 1e8}`);

test('entries of the audit log read as sentences, also those of a kind that is not known here', () => {
  const head = { v: 1, at: '2026-11-23T10:00:00Z', tenant: 't' } as const;
  expect(words({ ...head, kind: 'decision', runId: 'r', verdict: 'granted', toolName: 'pay', edited: true })).toBe(
    'granted pay, with other arguments',
  );
  expect(words({ ...head, kind: 'budget', change: 'set', scope: 'batch', accountId: 'n', microcents: 5e8 })).toBe(
    'batch n may spend $5',
  );
  expect(words({ ...head, kind: 'pause', change: 'paused', batchId: 'n' })).toBe('batch n paused');
  expect(words({ ...head, kind: 'later' } as never)).toBe('later');
});
