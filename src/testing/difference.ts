import { jsonText, isRecord } from '../shared/base/json.ts';
import { clip } from '../shared/base/text.ts';

/** Where two values differ first, and what each has there, in words. */
export interface Difference {
  /** As `messages[2].content`; empty for the values as a whole. */
  readonly path: string;
  readonly expected: string;
  readonly actual: string;
}

/** Stands in a text for what was taken out of it: it is equal to any text. */
export const hole = '[redacted]';

/** The first difference of two plain JSON values, in the order of the fields of the expected one. Undefined: they are equal. */
export function firstDifference(expected: unknown, actual: unknown, path = ''): Difference | undefined {
  if (typeof expected === 'string' && typeof actual === 'string') {
    if (isTextLike(expected, actual)) return undefined;
    return { path, ...textsFrom(expected, actual) };
  }
  if (Array.isArray(expected) && Array.isArray(actual)) {
    const length = Math.max(expected.length, actual.length);
    return firstOf(
      Array.from({ length }, (_, index) => index),
      (index) => differenceAt(expected, actual, index, `${path}[${index}]`),
    );
  }
  if (isRecord(expected) && isRecord(actual)) {
    const names = [...new Set([...Object.keys(expected), ...Object.keys(actual)])];
    const at = (name: string) => (path === '' ? name : `${path}.${name}`);
    return firstOf(names, (name) => differenceAt(expected, actual, name, at(name)));
  }
  return Object.is(expected, actual) ? undefined : { path, expected: shown(expected), actual: shown(actual) };
}

function differenceAt<K extends PropertyKey>(
  expected: { readonly [key in K]?: unknown },
  actual: { readonly [key in K]?: unknown },
  key: K,
  path: string,
): Difference | undefined {
  // Every object has fields of the language, such as `constructor`, which are no values of it.
  const own = (value: typeof expected) => (Object.hasOwn(value, key) ? value[key] : undefined);
  return firstDifference(own(expected), own(actual), path);
}

function firstOf<T, R>(items: Iterable<T>, find: (item: T) => R | undefined): R | undefined {
  for (const item of items) {
    const found = find(item);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Are the texts equal, where a hole in the expected one is equal to anything? */
function isTextLike(expected: string, actual: string): boolean {
  if (expected === actual) return true;
  const [first = '', ...rest] = expected.split(hole);
  if (rest.length === 0 || !actual.startsWith(first)) return false;
  let at = first.length;
  for (const [index, piece] of rest.entries()) {
    const isLast = index === rest.length - 1;
    const found = isLast && piece !== '' ? actual.lastIndexOf(piece) : actual.indexOf(piece, at);
    if (found < at) return false;
    at = isLast && piece === '' ? actual.length : found + piece.length;
  }
  return at === actual.length;
}

const shownChars = 160;
const charsBefore = 30;

/** Both texts from shortly before the place where they part. */
function textsFrom(expected: string, actual: string): Omit<Difference, 'path'> {
  let same = 0;
  while (same < expected.length && expected[same] === actual[same]) same++;
  const from = same <= charsBefore ? 0 : same - charsBefore;
  const cut = (text: string) => shown((from > 0 ? '…' : '') + text.slice(from));
  return { expected: cut(expected), actual: cut(actual) };
}

/** A value in words, not too long. */
export function shown(value: unknown, maxChars = shownChars): string {
  if (value === undefined) return 'nothing';
  const text = jsonText(value);
  return text.length <= maxChars ? text : `${clip(text, maxChars)}…`;
}
