/** `340 ms`, `1.2 s`, `3 min 05 s`, `2 h 10 min`. */
export function duration(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1_000);
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min ${String(seconds % 60).padStart(2, '0')} s`;
  return `${Math.floor(seconds / 3_600)} h ${String(Math.floor((seconds % 3_600) / 60)).padStart(2, '0')} min`;
}

/** `1,234,567`, the same in every locale. */
export function count(value: number): string {
  return value.toLocaleString('en-US');
}

/** `1 line`, `1,234 lines`: of nouns whose plural has an s. */
export function countOf(items: number, what: string): string {
  return `${count(items)} ${what}${items === 1 ? '' : 's'}`;
}

/** One line of at most `maxChars`, without control characters that would move the cursor. */
export function oneLine(text: string, maxChars: number): string {
  const short = flat(text).replace(/\s+/g, ' ').trim();
  return short.length <= maxChars ? short : `${short.slice(0, maxChars - 1)}…`;
}

/** The same of any length, with the spaces as they are. */
export function flat(text: string): string {
  return printable(text.replace(/[\r\n\u2028\u2029]+/g, ' '));
}

/**
 * What a model or a tool wrote, without the control characters that a terminal would obey: those that order it about, and those that
 * have it show the rest of a line in another order than it is in.
 */
export function printable(text: string): string {
  // eslint-disable-next-line no-control-regex
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, '');
}
