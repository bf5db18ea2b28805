/** A column whose head sorts the rows, where `sort` is given. */
export interface Sortable<Row> {
  readonly label: string;
  /** What rows are sorted by. Undefined comes last in both directions. */
  readonly sort?: (row: Row) => string | number | undefined;
}

type Direction = 'ascending' | 'descending';

export interface Order {
  readonly label: string;
  readonly direction: Direction;
}

/** An order as the URL has it, such as `Cost.descending`. */
export function orderText(order: Order | undefined): string | undefined {
  return order && `${order.label}.${order.direction}`;
}

/** Undefined for what is no order of these columns. */
export function orderFrom<Row>(text: string | undefined, columns: readonly Sortable<Row>[]): Order | undefined {
  const dot = text?.lastIndexOf('.') ?? -1;
  const label = text?.slice(0, dot);
  const direction = text?.slice(dot + 1);
  const isKnown = columns.some((column) => column.sort && column.label === label);
  if (label === undefined || !isKnown || (direction !== 'ascending' && direction !== 'descending')) return undefined;
  return { label, direction };
}

/** The name of a table's order in the query of the URL. */
export function orderName(table: string): string {
  return `sort-${table.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-')}`;
}

/** Rows as a reader has sorted them, with what the heads of the columns need. */
export interface Sorted<Row> {
  readonly rows: readonly Row[];
  readonly order: Order | undefined;
  readonly sortBy: (column: Sortable<Row>) => void;
}

/** The largest number first, or the alphabet from its beginning; then the other way round; then as the rows came. */
export function orderAfter<Row>(
  order: Order | undefined,
  { label, sort }: Sortable<Row>,
  rows: readonly Row[],
): Order | undefined {
  const isNumber = rows.some((row) => typeof sort?.(row) === 'number');
  const [first, second] = isNumber ? (['descending', 'ascending'] as const) : (['ascending', 'descending'] as const);
  if (order?.label !== label) return { label, direction: first };
  return order.direction === first ? { label, direction: second } : undefined;
}

export function sortedBy<Row>(
  rows: readonly Row[],
  sort: Sortable<Row>['sort'],
  direction: Direction = 'ascending',
): readonly Row[] {
  if (!sort) return rows;
  const sign = direction === 'ascending' ? 1 : -1;
  return rows.toSorted((a, b) => {
    const [left, right] = [sort(a), sort(b)];
    if (left === undefined || right === undefined) return Number(left === undefined) - Number(right === undefined);
    return sign * compare(left, right);
  });
}

function compare(a: string | number, b: string | number): number {
  if (typeof a === 'number' && typeof b === 'number') return a - b;
  return String(a).localeCompare(String(b), 'en', { numeric: true });
}

/** Undefined for a column that does not sort. */
export function ariaSort<Row>({ label, sort }: Sortable<Row>, { order }: Sorted<Row>): Direction | 'none' | undefined {
  if (!sort) return undefined;
  return order?.label === label ? order.direction : 'none';
}
