import { useMemo, useState } from 'preact/hooks';
import { orderAfter, sortedBy, type Order, type Sortable, type Sorted } from './sort.ts';

/** Rows that are all here, in the order that they come in until a head is pressed. */
export function useSorted<Row>(columns: readonly Sortable<Row>[], rows: readonly Row[]): Sorted<Row> {
  const [order, setOrder] = useState<Order>();
  const column = columns.find(({ label }) => label === order?.label);
  const sorted = useMemo(() => sortedBy(rows, column?.sort, order?.direction), [rows, column, order]);
  return { rows: sorted, order, sortBy: (pressed) => setOrder(orderAfter(order, pressed, rows)) };
}
