import type { WriteStream } from 'node:tty';
import { styleText } from 'node:util';

type Style = Parameters<typeof styleText>[0];

/** Text in a style where the stream is a terminal that shows it; plain elsewhere, with NO_COLOR and with `--no-color`. */
function paint(style: Style): (stream: WriteStream, text: string) => string {
  return (stream, text) => (hasColours(stream) ? styleText(style, text, { validateStream: false }) : text);
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

/** `340 ms`, `1.2 s`, `3 min 05 s`, `2 h 10 min`. */
export function duration(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1_000);
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min ${String(seconds % 60).padStart(2, '0')} s`;
  return `${Math.floor(seconds / 3_600)} h ${String(Math.floor((seconds % 3_600) / 60)).padStart(2, '0')} min`;
}

/** `2026-11-23 08:00:00`, of a time as events have it. */
export function dateTime(iso: string): string {
  return iso.slice(0, 19).replace('T', ' ');
}

/** `1,234,567`, the same in every locale. */
export function count(value: number): string {
  return value.toLocaleString('en-US');
}

/** One line of at most `maxChars`, without control characters that would move the cursor. */
export function oneLine(text: string, maxChars: number): string {
  const flat = printable(text).replace(/\s+/g, ' ').trim();
  return flat.length <= maxChars ? flat : `${flat.slice(0, maxChars - 1)}…`;
}

/** What a model or a tool wrote, without the control characters that a terminal would obey. */
export function printable(text: string): string {
  // eslint-disable-next-line no-control-regex
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, '');
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

/** The facts that there are. */
export function known(facts: readonly Fact[]): readonly (readonly [string, string])[] {
  return facts.filter((fact): fact is readonly [string, string] => fact[1] !== undefined);
}
