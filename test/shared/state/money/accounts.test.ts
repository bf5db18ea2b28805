import { expect, test } from 'vitest';
import { newRunId, runIdForExecution, timeOfRunId } from '../../../../src/shared/base/ids.ts';
import { budgetViewOf, windowBefore } from '../../../../src/shared/state/money/accounts.ts';
import { costIncrements, costRowsOf, costSource } from '../../../../src/shared/state/money/costs.ts';
import { budgetView, costRow, zeroUsage } from '../../../../src/shared/contract/money.ts';

const account = { scope: 'tenant', id: 'acme', window: 'day', windowStart: '2026-11-21' } as const;

test('an account that nothing was spent from has zeros and the cap that is known elsewhere', () => {
  const zeros = { spentMicrocents: 0, unconfirmedMicrocents: 0, reservedMicrocents: 0, waiting: 0 };
  expect(budgetViewOf(account, {}, 0)).toEqual({ ...account, ...zeros, onExceed: 'fail' });
  expect(budgetViewOf(account, {}, 0, { capMicrocents: 5, onExceed: 'warn' })).toEqual({
    ...account,
    ...zeros,
    capMicrocents: 5,
    onExceed: 'warn',
  });
});

test('the fields of an account go before what is known elsewhere, and top-ups are in the cap', () => {
  const hash = {
    spent: '7',
    unconfirmed: '2',
    reserved: '3',
    cap: '10',
    extra: '5',
    onExceed: 'fail',
    'r:x': '3 3 - []',
  };
  const view = budgetViewOf(account, hash, 4, { capMicrocents: 99, onExceed: 'warn' });
  expect(budgetView.parse(view)).toEqual({
    ...account,
    capMicrocents: 15,
    onExceed: 'fail',
    spentMicrocents: 7,
    unconfirmedMicrocents: 2,
    reservedMicrocents: 3,
    waiting: 4,
  });
});

test('the counters of a day become rows, and fields that are none are left out', () => {
  const attempt = { usage: { ...zeroUsage, input: 3, total: 3 }, costMicrocents: 9, priced: false };
  const names = { provider: 'p', model: 'm "x" [y]' };
  const source = costSource({ agent: 'a', ...names });
  const fields = costIncrements('a', [{ ...attempt, ...names }]).map(([field, by]) => [field, String(by)]);
  const junk = { 'attempts [1]': '1', 'attempts no-json': '1', [`colour ${source}`]: '1', plain: '1' };
  const rows = costRowsOf('2026-11-21', { ...junk, ...Object.fromEntries(fields) });
  expect(rows.map((row) => costRow.parse(row))).toEqual([
    {
      day: '2026-11-21',
      agent: 'a',
      provider: 'p',
      model: 'm "x" [y]',
      attempts: 1,
      ...attempt.usage,
      costMicrocents: 9,
      unconfirmedMicrocents: 0,
      unpricedAttempts: 1,
    },
  ]);
});

test('the window before is known across days, months and years', () => {
  const at = (iso: string) => Date.parse(iso);
  expect(windowBefore('hour', at('2026-11-21T00:59:59Z'))).toBe('2026-11-20T23');
  expect(windowBefore('day', at('2027-01-01T00:00:00Z'))).toBe('2026-12-31');
  expect(windowBefore('month', at('2027-01-31T12:00:00Z'))).toBe('2026-12');
  expect(windowBefore('month', at('2028-03-31T12:00:00Z'))).toBe('2028-02');
});

test('the age of a run is read from its id, and hardly ever from one that was derived from an execution id', () => {
  const now = Date.UTC(2026, 10, 21);
  expect(timeOfRunId(newRunId(now - 5), now)).toBe(now - 5);
  expect(timeOfRunId(newRunId(now + 86_400_000), now)).toBeUndefined();
  const derived = Array.from({ length: 10_000 }, (_, i) => timeOfRunId(runIdForExecution('acme', `e${i}`), now));
  expect(derived.filter((time) => time !== undefined).length).toBeLessThan(10);
});
