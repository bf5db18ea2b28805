import type { WriteStream } from 'node:tty';
import { styleText } from 'node:util';
import { flat } from '../../../shared/base/words.ts';

type Style = Parameters<typeof styleText>[0];

/**
 * A piece of a line in a style where the stream is a terminal that shows it; plain elsewhere, with NO_COLOR and with `--no-color`.
 * Whatever a name in it is, it stays on its line.
 */
function paint(style: Style): (stream: WriteStream, text: string) => string {
  return (stream, text) => (hasColours(stream) ? styleText(style, flat(text), { validateStream: false }) : flat(text));
}

function hasColours(stream: WriteStream): boolean {
  return stream.isTTY && stream.getColorDepth() > 2;
}

/** Nothing that is written to it has colours from now on. */
export function withoutColours(stream: WriteStream): void {
  stream.getColorDepth = () => 1;
}

export const dim = paint('dim');
export const bold = paint('bold');
export const red = paint('red');
export const green = paint('green');
export const yellow = paint('yellow');

/** `2026-11-23 08:00:00`, of a time as events have it. */
export function dateTime(iso: string): string {
  return iso.slice(0, 19).replace('T', ' ');
}

/** Rows in columns, the first row being the heading. */
export function table(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0))) ?? [];
  return rows
    .map(
      (row) =>
        `${row
          .map((cell, column) => cell.padEnd(widths[column] ?? 0))
          .join('  ')
          .trimEnd()}\n`,
    )
    .join('');
}

export type Fact = readonly [name: string, value: string | undefined];

/** The facts that there are, each as a line. */
export function known(facts: readonly Fact[]): readonly (readonly [string, string])[] {
  return facts.flatMap(([name, value]) => (value === undefined ? [] : [[flat(name), flat(value)] as const]));
}
