import { expect, test } from 'vitest';
import type { EventBody } from '../../../src/shared/event.ts';
import type { Budget } from '../../../src/shared/money.ts';
import type { Price } from '../../../src/worker/llm/cost.ts';
import { RunBudget } from '../../../src/worker/run/budget.ts';

/** 100 output tokens cost 200 microcents. */
const price: Price = { input: 1_000_000, output: 2_000_000, cached: 0, cacheWrite: 0 };

function world(budget: Partial<Budget> | undefined, options: { spent?: number; priced?: boolean } = {}) {
  const events: EventBody[] = [];
  const full: Budget | undefined = budget && { onExceed: 'fail', unpriced: 'allow', ...budget };
  const { spent = 0, priced = true } = options;
  const gate = new RunBudget({
    budget: full,
    spent,
    maxOutputTokens: 100,
    price: priced ? price : undefined,
    emit: (event) => events.push(event),
  });
  return { gate, events };
}

test('a run without a cap, or with one of zero or less, is never stopped', () => {
  for (const budget of [undefined, {}, { maxCostMicrocents: 0 }, { maxCostMicrocents: -5 }]) {
    expect(() => world(budget, { spent: 1e12 }).gate.check()).not.toThrow();
  }
});

test('a model without a price is refused where the run says so, and only with a cap', () => {
  const denied = world({ maxCostMicrocents: 10, unpriced: 'deny' }, { priced: false });
  expect(() => denied.gate.check()).toThrow(/known price/);
  expect(() => world({ unpriced: 'deny' }, { priced: false }).gate.check()).not.toThrow();
});

test('what is spent and the next call at its dearest may reach the cap but not pass it', () => {
  expect(() => world({ maxCostMicrocents: 500 }, { spent: 300 }).gate.check()).not.toThrow();
  const over = world({ maxCostMicrocents: 500 }, { spent: 301 });
  expect(() => over.gate.check()).toThrow(expect.objectContaining({ code: 'budget_exceeded' }));
});

test('attempts that the journal records count, failed ones too', () => {
  const { gate } = world({ maxCostMicrocents: 500 });
  const attempts = [{ costMicrocents: 301 }] as never;
  gate.count([{ v: 1, t: 'attempted', step: 1, attempts }]);
  expect(() => gate.check()).toThrow(/cap of the run/);
});

test('a run that only warns goes on and warns once', () => {
  const { gate, events } = world({ maxCostMicrocents: 100, onExceed: 'warn' }, { spent: 50 });
  gate.check();
  gate.check();
  expect(events).toEqual([{ type: 'budget.warning', spentMicrocents: 50, limitMicrocents: 100, thresholdPct: 50 }]);
});
