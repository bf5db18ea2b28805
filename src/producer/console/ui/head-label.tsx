import type { Sortable, Sorted } from './sort.ts';

/** What stands in the head of a column. */
export function HeadLabel<Row>({ column, sorted }: { column: Sortable<Row>; sorted: Sorted<Row> }) {
  const { label, sort } = column;
  if (!sort) return <>{label}</>;
  const direction = sorted.order?.label === label ? sorted.order.direction : undefined;
  return (
    <button type="button" class="sort" onClick={() => sorted.sortBy(column)}>
      {label}
      {direction && (
        <span class="sort-sign" aria-hidden="true">
          {direction === 'ascending' ? '▴' : '▾'}
        </span>
      )}
    </button>
  );
}
