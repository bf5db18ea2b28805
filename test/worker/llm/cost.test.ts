import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Attempt } from '../../../src/shared/contract/journal/journal.ts';
import { runUsage, addAttempt, addRunUsage, emptyRunUsage } from '../../../src/shared/contract/money.ts';
import { costOf } from '../../../src/worker/llm/cost.ts';

const used = (input: number, output = 0, cached = 0, cacheWrite = 0) => ({
  input,
  output,
  cached,
  cacheWrite,
  total: input + output + cached + cacheWrite,
});

test('each class of token has its rate and is rounded once', () => {
  const price = { input: 25_000_000, output: 200_000_000, cached: 2_500_000, cacheWrite: 31_250_000 };
  expect(costOf(used(1_000, 100, 10_000, 1), price)).toBe(25_000 + 20_000 + 25_000 + 31);
  expect(costOf(used(1), { input: 500_000, output: 0, cached: 0, cacheWrite: 0 })).toBe(1);
  expect(costOf(used(1), { input: 499_999, output: 0, cached: 0, cacheWrite: 0 })).toBe(0);
});

test('dear models and huge counts lose no microcent', () => {
  const price = { input: 60_000_000_001, output: 0, cached: 0, cacheWrite: 0 };
  expect(costOf(used(100_000_000), price)).toBe(6_000_000_000_100);
});

test('a cost is a whole number that grows with the tokens', () => {
  fc.assert(
    fc.property(fc.nat(10_000_000), fc.nat(10_000_000), fc.nat(60_000_000_000), (few, more, rate) => {
      const price = { input: rate, output: rate, cached: rate, cacheWrite: rate };
      const cost = costOf(used(few), price);
      expect(Number.isSafeInteger(cost)).toBe(true);
      expect(costOf(used(few + more), price)).toBeGreaterThanOrEqual(cost);
    }),
  );
});

test('a long prompt makes the whole call dearer, cached tokens included', () => {
  const tiered = {
    base: 1_000_000,
    tiers: [
      { above: 100, rate: 2_000_000 },
      { above: 1_000, rate: 4_000_000 },
    ],
  };
  const price = { input: tiered, output: tiered, cached: 0, cacheWrite: 0 };
  expect(costOf(used(100, 1), price)).toBe(101);
  expect(costOf(used(99, 1, 2), price)).toBe(200);
  expect(costOf(used(1_001, 1), price)).toBe(4_008);
});

const attempt = (fields: Partial<Attempt>): Attempt => ({
  attemptNumber: 1,
  step: 1,
  provider: 'p',
  model: 'm',
  outcome: 'succeeded',
  requestId: 'r',
  costMicrocents: 0,
  priced: true,
  latencyMs: 1,
  ...fields,
});

test('a run sums its attempts by model, failed ones too, and skipped ones not at all', () => {
  const attempts = [
    attempt({ usage: used(10, 1), costMicrocents: 5 }),
    attempt({ outcome: 'failed' }),
    attempt({ outcome: 'skipped', model: 'n' }),
    attempt({ usage: used(1, 2, 3, 4), costMicrocents: 7, model: 'n' }),
    attempt({ usage: used(20), costMicrocents: 10 }),
  ];
  const sum = attempts.reduce(addAttempt, emptyRunUsage);
  expect(sum).toEqual({
    ...used(31, 3, 3, 4),
    byModel: {
      m: { ...used(30, 1), attemptCount: 3, costMicrocents: 15 },
      n: { ...used(1, 2, 3, 4), attemptCount: 1, costMicrocents: 7 },
    },
  });
  expect(emptyRunUsage.byModel).toEqual({});
});

test.for(['constructor', '__proto__', 'toString'])(
  'what a model called %s used adds up like that of others',
  (model) => {
    const one = addAttempt(emptyRunUsage, attempt({ model, usage: used(2, 1), costMicrocents: 5 }));
    const two = addRunUsage(one, addAttempt(one, attempt({ model, usage: used(2, 1), costMicrocents: 5 })));
    expect(Object.entries(two.byModel)).toEqual([[model, { ...used(6, 3), attemptCount: 3, costMicrocents: 15 }]]);
    expect(runUsage.safeParse(JSON.parse(JSON.stringify(two))).success).toBe(true);
  },
);
