type Replacer = (this: unknown, name: string, value: unknown) => unknown;

/** The escapes of a JSON text, from left to right, so that one behind an escaped backslash is none. */
const escapes = /\\(?:u[0-9A-Fa-f]{4}|.)/g;
const halfCharacter = /^\\u[dD][89a-fA-F]/;

/**
 * The one writer of JSON: what `JSON.stringify` writes, with U+FFFD for half a character. That writes `\ud83d` for one,
 * which the JSON reader of Redis refuses, in the middle of a script that cannot take back what it has written.
 * Like it, it answers undefined for what JSON has no text for, and throws for cycles and big integers.
 */
export function jsonText(value: unknown, replacer?: Replacer | null, indent?: number): string {
  const text = JSON.stringify(value, replacer ?? undefined, indent) as string | undefined;
  return text === undefined ? (text as unknown as string) : whole(text);
}

/**
 * The value of a stored JSON text. Half characters in it, from before `jsonText` wrote everything, count as U+FFFD, as they
 * do in scripts. Throws a `SyntaxError` for what is no JSON.
 */
export function storedJson(text: string): unknown {
  return JSON.parse(whole(text));
}

/** Both write a whole character as it is, never as two escapes: an escape of this form is half of one. */
function whole(text: string): string {
  if (!text.includes('\\ud')) return text;
  return text.replace(escapes, (escape) => (halfCharacter.test(escape) ? '\\ufffd' : escape));
}

/** The value of a JSON text, or `otherwise` for a text that is none. */
export function jsonOr(text: string, otherwise?: unknown): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return otherwise;
  }
}

/** Is this an object with fields, neither null nor an array? */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return value !== null && typeof value === 'object' && !Array.isArray(value);
}

/** JSON with sorted keys, so that the same value in another order of fields is the same text. */
export function canonicalJson(value: unknown): string {
  return jsonText(value, (_, item: unknown) =>
    isRecord(item) ? Object.fromEntries(Object.entries(item).sort(([a], [b]) => (a < b ? -1 : 1))) : item,
  );
}

/** Values of callers, models and tools are refused, or cut off, below this many levels. */
export const maxLevels = 64;

/** Is this JSON text nested deeper than `max` levels? One pass, without parsing; brackets inside strings do not count. */
export function depthOver(text: string, max: number): boolean {
  if (text.length <= max) return false;
  let depth = 0;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit === quote) i = endOfString(text, i);
    else if (unit === openBrace || unit === openBracket) {
      depth++;
      if (depth > max) return true;
    } else if (unit === closeBrace || unit === closeBracket) depth--;
  }
  return false;
}

/**
 * Does an object in this JSON text have a key twice? A reader takes the first value or the last, and `JSON.parse` drops all but the last:
 * its value has fewer fields then than the text has colons outside of strings. Throws a `SyntaxError` for what is no JSON.
 */
export function repeatsKey(text: string): boolean {
  const fields = countFields(JSON.parse(text));
  let colons = 0;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit === quote) i = endOfString(text, i);
    else if (unit === colon) colons++;
  }
  return colons > fields;
}

/** The fields of a value and of all that is in it, however deep. */
function countFields(whole: unknown): number {
  let fields = 0;
  const values = [whole];
  for (const value of values) {
    if (value === null || typeof value !== 'object') continue;
    const within: readonly unknown[] = Object.values(value);
    if (!Array.isArray(value)) fields += within.length;
    for (const item of within) values.push(item);
  }
  return fields;
}

/** Where the string ends whose first quote is at `from`. */
function endOfString(text: string, from: number): number {
  for (let i = from + 1; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit === backslash) i++;
    else if (unit === quote) return i;
  }
  return text.length;
}

/** Is this value nested deeper than `levels`? Looks no further than that, so that a cycle ends it, too. */
export function deeperThan(value: unknown, levels: number): boolean {
  if (value === null || typeof value !== 'object') return false;
  if (levels === 0) return true;
  return Object.values(value).some((item) => deeperThan(item, levels - 1));
}

const quote = 34;
const colon = 58;
const openBracket = 91;
const backslash = 92;
const closeBracket = 93;
const openBrace = 123;
const closeBrace = 125;
