import { flat, oneLine } from '../../../shared/base/words.ts';

/** A column of a list: its heading, and what may be done with its cells. */
export interface Column {
  readonly head: string;
  /** Numbers: their last digits stand below each other. */
  readonly isNumber?: true;
  /** Text that may be cut where the terminal is too narrow. */
  readonly isText?: true;
}

export const nameColumn = (head: string): Column => ({ head });
export const numberColumn = (head: string): Column => ({ head, isNumber: true });
export const textColumn = (head: string): Column => ({ head, isText: true });

const gap = '  ';
const minTextChars = 12;

/**
 * A list under headings, aligned. On a terminal no line is wider than it, as far as cutting texts helps: ids, dates and numbers
 * are never cut. Elsewhere nothing is.
 */
export function listTable(
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
  stream: { readonly isTTY?: boolean; readonly columns?: number },
): string {
  const cells = [columns.map(({ head }) => head), ...rows.map((row) => row.map(flat))];
  const widths = columns.map((_, index) => Math.max(...cells.map((row) => row[index]?.length ?? 0)));
  if (stream.isTTY) narrow(widths, columns, stream.columns || 80);
  return cells.map((row) => `${lineOf(row, widths, columns)}\n`).join('');
}

/** Makes texts narrower, the widest first, until a line fits. */
function narrow(widths: number[], columns: readonly Column[], room: number): void {
  for (;;) {
    const excess = widths.reduce((sum, width) => sum + width, gap.length * (widths.length - 1)) - room;
    const [widest] = columns
      .flatMap(({ isText }, index) => (isText && (widths[index] ?? 0) > minTextChars ? [index] : []))
      .sort((a, b) => (widths[b] ?? 0) - (widths[a] ?? 0));
    if (excess <= 0 || widest === undefined) return;
    widths[widest] = Math.max(minTextChars, (widths[widest] ?? 0) - excess);
  }
}

function lineOf(row: readonly string[], widths: readonly number[], columns: readonly Column[]): string {
  const cells = columns.map(({ isNumber }, index) => {
    const width = widths[index] ?? 0;
    const cell = row[index] ?? '';
    const shown = cell.length > width ? oneLine(cell, width) : cell;
    return isNumber ? shown.padStart(width) : shown.padEnd(width);
  });
  return cells.join(gap).trimEnd();
}
