import { elementScroll, observeElementOffset, observeElementRect, Virtualizer } from '@tanstack/virtual-core';
import type { ComponentChildren } from 'preact';
import { useEffect, useReducer, useRef, useState } from 'preact/hooks';
import { useLocation } from 'preact-iso/router';
import { useKeys } from '../keys.ts';
import { HeadLabel } from './head-label.tsx';
import { ariaSort, type Sortable, type Sorted } from './sort.ts';
import { useSorted } from './use-sorted.ts';

const rowPx = 36;
const overscan = 12;
/** So many rows before the end, `onEnd` is asked for more. */
const nearEnd = 30;

export interface Column<Row> extends Sortable<Row> {
  readonly id: string;
  readonly cell: (row: Row) => ComponentChildren;
  /** A track of CSS grid, such as `minmax(8rem, 2fr)`. Default `minmax(6rem, 1fr)`. */
  readonly width?: string;
  /** The same on a phone. */
  readonly narrowWidth?: string;
  readonly align?: 'end';
  /** Left out where the page is narrower than a tablet. */
  readonly wideOnly?: boolean;
}

export interface Selection {
  readonly ids: ReadonlySet<string>;
  readonly change: (ids: ReadonlySet<string>) => void;
}

export interface TableProps<Row> {
  /** Says what the table lists. */
  readonly label: string;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly keyOf: (row: Row) => string;
  /** Where a row leads. Its first cell is the link; a click on the row, and Enter on the current one, follow it. */
  readonly hrefOf?: (row: Row) => string;
  readonly selection?: Selection;
  /** Called when the end comes near; again for each new number of rows. */
  readonly onEnd?: () => void;
  /** Shown below the last row. */
  readonly foot?: ComponentChildren;
}

/**
 * A table that draws only the rows in sight, so ten thousand are as quick as ten. It scrolls by itself and takes the
 * height that its view leaves it. `j` and `k` move the current row, Enter opens it, `x` selects it.
 */
export function Table<Row>(props: TableProps<Row>) {
  const { label, columns, keyOf, hrefOf, selection, onEnd, foot } = props;
  const sorted = useSorted(label, columns, props.rows);
  const { rows } = sorted;
  const scroller = useRef<HTMLDivElement>(null);
  const virtual = useRows(scroller, rows.length);
  const [currentKey, setCurrent] = useState<string>();
  const { route } = useLocation();
  const index = currentKey === undefined ? -1 : rows.findIndex((row) => keyOf(row) === currentKey);

  const move = (by: number) => {
    const to = Math.min(rows.length - 1, Math.max(0, index + by));
    const row = rows[to];
    if (!row) return;
    setCurrent(keyOf(row));
    // Enter is then the row's, and no longer that of the link or button which had the focus.
    scroller.current?.focus({ preventScroll: true });
    virtual.scrollToIndex(to, { align: 'auto' });
  };
  const current = rows[index];
  useKeys({
    j: { what: 'Next row', run: () => move(1) },
    k: { what: 'Row before', run: () => move(-1) },
    ...(hrefOf && { Enter: { what: 'Open the row', run: () => current && route(hrefOf(current)) } }),
    ...(selection && {
      x: { what: 'Select the row', run: () => current && toggle(selection, keyOf(current)) },
      Escape: { what: 'Select nothing', run: () => selection.change(new Set()) },
    }),
  });

  const items = virtual.getVirtualItems();
  const lastInSight = items.at(-1)?.index ?? -1;
  useEffect(() => {
    if (rows.length > 0 && lastInSight >= rows.length - nearEnd) onEnd?.();
  }, [lastInSight, rows.length]);

  const tracks = tracksOf(columns, selection !== undefined);
  return (
    <div class="table-box" ref={scroller} tabIndex={0} role="region" aria-label={`${label}, scrolls`}>
      <div
        class={selection ? 'table selectable' : 'table'}
        role="table"
        aria-label={label}
        aria-rowcount={rows.length + 1}
        style={{ '--tracks': tracks.wide, '--tracks-narrow': tracks.narrow }}
      >
        <Head {...{ columns, sorted, keyOf, selection }} />
        <div role="rowgroup" class="table-rows" style={{ height: `${virtual.getTotalSize()}px` }}>
          {items.map((item) => {
            const row = rows[item.index];
            if (!row) return null;
            const key = keyOf(row);
            return (
              <div
                key={key}
                role="row"
                aria-rowindex={item.index + 2}
                aria-current={key === currentKey ? 'true' : undefined}
                class={hrefOf ? 'table-row leads' : 'table-row'}
                style={{ transform: `translateY(${item.start}px)` }}
                onClick={(event) => {
                  setCurrent(key);
                  if (hrefOf && isAboutRow(event)) route(hrefOf(row));
                }}
              >
                {selection && <Check selection={selection} id={key} />}
                <Cells columns={columns} row={row} href={hrefOf?.(row)} />
              </div>
            );
          })}
        </div>
      </div>
      {foot && <div class="table-foot">{foot}</div>}
    </div>
  );
}

function Head<Row>({
  columns,
  sorted,
  keyOf,
  selection,
}: Pick<TableProps<Row>, 'columns' | 'keyOf'> & { sorted: Sorted<Row>; selection: Selection | undefined }) {
  const { rows } = sorted;
  const all = selection && rows.length > 0 && rows.every((row) => selection.ids.has(keyOf(row)));
  return (
    <div role="rowgroup" class="table-head">
      <div role="row" aria-rowindex={1} class="table-row">
        {selection && (
          <span role="columnheader" class="cell">
            <input
              type="checkbox"
              aria-label="Select all rows that are loaded"
              checked={all ?? false}
              onChange={({ currentTarget }) => selection.change(new Set(currentTarget.checked ? rows.map(keyOf) : []))}
            />
          </span>
        )}
        {columns.map((column) => (
          <span key={column.id} role="columnheader" class={cellClass(column)} aria-sort={ariaSort(column, sorted)}>
            <HeadLabel {...{ column, sorted }} />
          </span>
        ))}
      </div>
    </div>
  );
}

function Cells<Row>({ columns, row, href }: { columns: readonly Column<Row>[]; row: Row; href: string | undefined }) {
  return (
    <>
      {columns.map((column, at) => (
        <span key={column.id} role="cell" class={cellClass(column)}>
          {at === 0 && href !== undefined ? <a href={href}>{column.cell(row)}</a> : column.cell(row)}
        </span>
      ))}
    </>
  );
}

function Check({ selection, id }: { selection: Selection; id: string }) {
  return (
    <span role="cell" class="cell check-cell">
      <input
        type="checkbox"
        aria-label={`Select ${id}`}
        checked={selection.ids.has(id)}
        onChange={() => toggle(selection, id)}
      />
    </span>
  );
}

/** A click on what has a meaning of its own, one that ends a selection of text, and one for another tab are not. */
function isAboutRow(event: MouseEvent): boolean {
  const isOthers = event.target instanceof Element && event.target.closest('a, button, input, .check-cell') !== null;
  const isModified = event.ctrlKey || event.metaKey || event.altKey || event.shiftKey;
  return !isOthers && !isModified && (getSelection()?.isCollapsed ?? true);
}

function toggle({ ids, change }: Selection, id: string): void {
  const next = new Set(ids);
  if (!next.delete(id)) next.add(id);
  change(next);
}

function cellClass<Row>({ align, wideOnly }: Column<Row>): string {
  return ['cell', align === 'end' ? 'end' : '', wideOnly ? 'wide-only' : ''].filter(Boolean).join(' ');
}

function tracksOf<Row>(columns: readonly Column<Row>[], selectable: boolean) {
  const join = (tracks: readonly string[]) => [...(selectable ? ['2rem'] : []), ...tracks].join(' ');
  const wide = (column: Column<Row>) => column.width ?? 'minmax(6rem, 1fr)';
  const narrow = columns.filter(({ wideOnly }) => !wideOnly);
  return { wide: join(columns.map(wide)), narrow: join(narrow.map((column) => column.narrowWidth ?? wide(column))) };
}

/** The library's virtual list as a hook: it learns after each drawing what changed, and says when to draw again. */
function useRows(scroller: { readonly current: HTMLDivElement | null }, count: number) {
  const [, draw] = useReducer((times: number) => times + 1, 0);
  const [virtual] = useState(() => new Virtualizer<HTMLDivElement, HTMLDivElement>(optionsFor(scroller, count, draw)));
  virtual.setOptions(optionsFor(scroller, count, draw));
  // What every binding of the library calls.
  useEffect(() => virtual['_didMount'](), []);
  useEffect(() => virtual['_willUpdate']());
  return virtual;
}

function optionsFor(scroller: { readonly current: HTMLDivElement | null }, count: number, draw: (_: void) => void) {
  return {
    count,
    getScrollElement: () => scroller.current,
    estimateSize: () => rowPx,
    overscan,
    observeElementRect,
    observeElementOffset,
    scrollToFn: elementScroll,
    // The head sticks above the rows.
    scrollPaddingStart: rowPx,
    paddingStart: 0,
    onChange: () => draw(),
  };
}
