import { expect, test } from 'vitest';
import { errorRate, rowsOf } from '../../../src/producer/console/views/agents/agent-rows.ts';
import { factsOf, fallbacksOf } from '../../../src/producer/console/views/agents/definition-facts.ts';
import { wordsOf } from '../../../src/producer/console/views/audit/entry-words.ts';
import { chartsOf, longerSteps, stepName } from '../../../src/producer/console/views/fleet/chart-data.ts';
import {
  csvOf,
  dayBefore,
  mostExpensive,
  sumsBy,
  sumsByDay,
} from '../../../src/producer/console/views/money/cost-sums.ts';
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

test('charts show how many there were in a step, say how long it is, and know no wait where no run began', () => {
  const busy = {
    ...nothing,
    started: 6,
    ended: 3,
    failed: 1,
    queueWaitMs: 1_200,
    maxQueueWaitMs: 900,
    inputTokens: 600,
    costMicrocents: 5e7,
  };
  const charts = chartsOf([nothing, busy], 30);
  const of = (id: string) => charts.find((chart) => chart.id === id)?.lines.map(({ values }) => values);
  expect(charts.map(({ title }) => title)).toEqual([
    'Runs per 30 seconds',
    'Wait in the queue',
    'Tokens per 30 seconds',
    'Cost per 30 seconds',
    'Errors per 30 seconds',
  ]);
  expect(of('throughput')).toEqual([
    [0, 6],
    [0, 3],
  ]);
  expect(of('wait')).toEqual([
    [null, 200],
    [null, 900],
  ]);
  expect(of('tokens')?.[0]).toEqual([0, 600]);
  expect(of('cost')).toEqual([[0, 5e7]]);
  expect(of('errors')?.[0]).toEqual([0, 1]);
  expect([10, 60, 120, 600, 3_600, 7_200].map(stepName)).toEqual([
    '10 seconds',
    'minute',
    '2 minutes',
    '10 minutes',
    'hour',
    '2 hours',
  ]);
});

test('the table beside a chart has longer steps: what is counted is added up, and of waits the longest stays', () => {
  const points = [1, 2, 3, 4, 5].map((started) => ({
    ...nothing,
    at: `at ${started}`,
    started,
    queueWaitMs: started * 100,
    maxQueueWaitMs: 700 - started * 100,
  }));
  const { points: longer, stepS } = longerSteps(points, 30, 3);
  expect(stepS).toBe(60);
  expect(
    longer.map(({ at, started, queueWaitMs, maxQueueWaitMs }) => [at, started, queueWaitMs, maxQueueWaitMs]),
  ).toEqual([
    ['at 1', 3, 300, 600],
    ['at 3', 7, 700, 400],
    ['at 5', 5, 500, 200],
  ]);
  expect(longerSteps([], 30, 3)).toEqual({ points: [], stepS: 30 });
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
  const erased = { ...head, kind: 'erasure', of: 'run', receiptId: 'r1', receiptSha256: 's' } as const;
  expect(words({ ...erased, runs: 1, threads: 0 })).toBe('1 run and 0 threads erased, receipt r1');
  expect(words({ ...head, kind: 'pause', change: 'paused', batchId: 'n' })).toBe('batch n paused');
  expect(words({ ...head, kind: 'later' } as never)).toBe('later');
});

test('costs are a table for a spreadsheet, and the most expensive come first', async () => {
  const row = {
    day: '2026-03-01',
    agent: 'a, b',
    provider: 'openai',
    model: 'm',
    total: 3,
    attempts: 4,
    costMicrocents: 150,
    unconfirmedMicrocents: 1e8,
    unpricedAttempts: 1,
  };
  const csv = await csvOf([row as Parameters<typeof csvOf>[0][number]]);
  expect(csv.split('\n')).toEqual([
    'day,agent,provider,model,calls,tokens,cost_usd,unconfirmed_usd,calls_unpriced',
    '2026-03-01,"a, b",openai,m,4,3,0.00000150,1.00000000,1',
    '',
  ]);
  const all = [1, 3, 2].map((costMicrocents) => ({ costMicrocents }));
  expect(mostExpensive(all, 2)).toEqual([{ costMicrocents: 3 }, { costMicrocents: 2 }]);
});
