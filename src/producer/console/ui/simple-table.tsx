import type { ComponentChildren } from 'preact';
import '../styles/charts.css';
import { HeadLabel } from './head-label.tsx';
import { ariaSort, type Sortable } from './sort.ts';
import { useSorted } from './use-sorted.ts';

export interface SimpleColumn<Row> extends Sortable<Row> {
  readonly cell: (row: Row) => ComponentChildren;
  readonly align?: 'end';
}

/** A short table, drawn whole. It scrolls to the side where the page is narrow. */
export function SimpleTable<Row>({
  label,
  columns,
  rows,
  keyOf,
}: {
  /** Says what the table lists. */
  label: string;
  columns: readonly SimpleColumn<Row>[];
  rows: readonly Row[];
  keyOf: (row: Row) => string;
}) {
  const sorted = useSorted(label, columns, rows);
  return (
    <div class="scrolls" tabIndex={0} role="region" aria-label={label}>
      <table class="simple">
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column.label} scope="col" class={column.align} aria-sort={ariaSort(column, sorted)}>
                <HeadLabel {...{ column, sorted }} />
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {sorted.rows.map((row) => (
            <tr key={keyOf(row)}>
              {columns.map((column) => (
                <td key={column.label} class={column.align}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
