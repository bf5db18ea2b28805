/** How much of a text is shown before anybody asks for all of it. */
export const firstChars = 4_000;
export const firstLines = 40;
/** How much a page shows at all: a browser lays out more than that only with a pause that is felt. */
export const mostChars = 512 * 1024;

export interface ShownText {
  readonly text: string;
  /** Characters that are not shown. */
  readonly left: number;
}

/** The beginning of a text, within a bound of characters and lines. */
export function beginningOf(text: string, chars = firstChars, lines = firstLines): ShownText {
  let end = Math.min(text.length, chars);
  for (let at = -1, seen = 0; (at = text.indexOf('\n', at + 1)) >= 0 && at < end;) {
    if (++seen === lines) end = at;
  }
  // Half of a pair of surrogates is no character.
  if (end < text.length && /[\uD800-\uDBFF]/.test(text[end - 1] ?? '')) end--;
  return { text: text.slice(0, end), left: text.length - end };
}

/** JSON as it is read; any other text as it is. */
export function prettyOf(text: string): string {
  if (!/^\s*[[{]/.test(text) || text.length > mostChars) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
