import { expect, test } from 'vitest';
import { orderAfter, orderFrom, orderName, orderText, sortedBy } from '../../../src/producer/console/ui/sort.ts';

interface Row {
  readonly name: string;
  readonly cost?: number;
}

const rows: readonly Row[] = [{ name: 'b10', cost: 2 }, { name: 'b9' }, { name: 'a', cost: 10 }];
const byName = { label: 'Name', sort: ({ name }: Row) => name };
const byCost = { label: 'Cost', sort: ({ cost }: Row) => cost };

test('rows are sorted by numbers as numbers, and what has no value is last in both directions', () => {
  const costs = (direction: 'ascending' | 'descending') =>
    sortedBy(rows, byCost.sort, direction).map(({ cost }) => cost);
  expect(costs('ascending')).toEqual([2, 10, undefined]);
  expect(costs('descending')).toEqual([10, 2, undefined]);
  expect(sortedBy(rows, byName.sort).map(({ name }) => name)).toEqual(['a', 'b9', 'b10']);
  expect(sortedBy(rows, undefined)).toBe(rows);
});

test('a head that is pressed again turns the order around, and then gives it up', () => {
  const most = orderAfter(undefined, byCost, rows);
  expect(most).toEqual({ label: 'Cost', direction: 'descending' });
  const least = orderAfter(most, byCost, rows);
  expect(least).toEqual({ label: 'Cost', direction: 'ascending' });
  expect(orderAfter(least, byCost, rows)).toBeUndefined();
  expect(orderAfter(least, byName, rows)).toEqual({ label: 'Name', direction: 'ascending' });
});

test('an order comes back from the URL, and what is none of these columns is none', () => {
  const order = { label: 'Cost', direction: 'descending' } as const;
  expect(orderFrom(orderText(order), [byName, byCost])).toEqual(order);
  const dotted = { label: 'a. b', direction: 'ascending' } as const;
  expect(orderFrom(orderText(dotted), [{ ...byName, label: 'a. b' }])).toEqual(dotted);
  expect(orderText(undefined)).toBeUndefined();
  for (const text of [undefined, '', 'Cost', 'Cost.up', '.descending', 'Size.descending', '__proto__.ascending'])
    expect(orderFrom(text, [byName, byCost])).toBeUndefined();
  expect(orderFrom('Plain.ascending', [{ label: 'Plain' }])).toBeUndefined();
  expect(orderName('By model, per day')).toBe('sort-by-model-per-day');
});
