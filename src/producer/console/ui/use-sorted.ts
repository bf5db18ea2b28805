import { useMemo } from 'preact/hooks';
import { orderAfter, orderFrom, orderName, orderText, sortedBy, type Sortable, type Sorted } from './sort.ts';
import { useUrlState } from './url-state.ts';

/** Rows that are all here, in the order that they come in until a head is pressed. The URL keeps the order of each table. */
export function useSorted<Row>(table: string, columns: readonly Sortable<Row>[], rows: readonly Row[]): Sorted<Row> {
  const [query, setQuery] = useUrlState();
  const name = orderName(table);
  const text = query[name];
  const order = orderFrom(text, columns);
  const column = columns.find(({ label }) => label === order?.label);
  const sorted = useMemo(() => sortedBy(rows, column?.sort, order?.direction), [rows, column, text]);
  return {
    rows: sorted,
    order,
    sortBy: (pressed) => setQuery({ [name]: orderText(orderAfter(order, pressed, rows)) }),
  };
}
