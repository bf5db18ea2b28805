import { isRecord, pathText, type Path } from './schema-form.ts';

/** The value with another one at the path; what is missing on the way is made. */
export function withAt(value: unknown, [head, ...rest]: Path, next: unknown): unknown {
  if (head === undefined) return next;
  if (typeof head === 'number') {
    const items = Array.isArray(value) ? [...(value as readonly unknown[])] : [];
    items[head] = withAt(items[head], rest, next);
    return items;
  }
  const fields = isRecord(value) ? value : {};
  return { ...fields, [head]: withAt(fields[head], rest, next) };
}

/** The value without what stands at the path. Items of a list move up. */
export function withoutAt(value: unknown, [head, ...rest]: Path): unknown {
  if (head === undefined) return undefined;
  if (typeof head === 'number') {
    if (!Array.isArray(value)) return value;
    const items = value as readonly unknown[];
    if (rest.length === 0) return items.filter((_, at) => at !== head);
    return items.map((item, at) => (at === head ? withoutAt(item, rest) : item));
  }
  if (!isRecord(value) || !Object.hasOwn(value, head)) return value;
  const { [head]: gone, ...others } = value;
  return rest.length === 0 ? others : { ...value, [head]: withoutAt(gone, rest) };
}

/** What a person typed: a value, or why it is none. */
export type Typed = { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly problem: string };

/** A number as people type it. */
export function readNumber(text: string, whole: boolean): Typed {
  const trimmed = text.trim();
  const value = Number(trimmed);
  if (trimmed === '' || !Number.isFinite(value)) return { ok: false, problem: 'must be a number' };
  if (whole && !Number.isInteger(value)) return { ok: false, problem: 'must be a whole number' };
  if (Number.isInteger(value) && !Number.isSafeInteger(value))
    return { ok: false, problem: 'is too large to be kept exactly' };
  return { ok: true, value };
}

export function readJson(text: string): Typed {
  try {
    return { ok: true, value: JSON.parse(text) as unknown };
  } catch (error) {
    return { ok: false, problem: `is not JSON: ${error instanceof Error ? error.message : String(error)}` };
  }
}

export interface Change {
  readonly path: string;
  /** As JSON; undefined: it was not there, or is not there any more. */
  readonly before: string | undefined;
  readonly after: string | undefined;
}

/** Where two values differ, leaf by leaf, in the order of the first. Empty: they are the same. */
export function changesBetween(before: unknown, after: unknown, path: Path = []): readonly Change[] {
  if (isRecord(before) && isRecord(after)) {
    const names = new Set([...Object.keys(before), ...Object.keys(after)]);
    return [...names].flatMap((name) => changesBetween(before[name], after[name], [...path, name]));
  }
  if (Array.isArray(before) && Array.isArray(after)) {
    const places = Array.from({ length: Math.max(before.length, after.length) }, (_, at) => at);
    return places.flatMap((at) => changesBetween(before[at], after[at], [...path, at]));
  }
  const [was, is] = [shown(before), shown(after)];
  return was === is ? [] : [{ path: pathText(path), before: was, after: is }];
}

function shown(value: unknown): string | undefined {
  return value === undefined ? undefined : JSON.stringify(value);
}

/** The paths of texts that the producer has masked: sent back, they would put the mask in the place of the secret. */
export function maskedIn(value: unknown, path: Path = []): readonly string[] {
  if (typeof value === 'string') return mask.test(value) ? [pathText(path)] : [];
  if (Array.isArray(value)) return value.flatMap((item, at) => maskedIn(item, [...path, at]));
  if (!isRecord(value)) return [];
  return Object.entries(value).flatMap(([name, each]) => maskedIn(each, [...path, name]));
}

const mask = /\[redacted(: [^\]]*)?\]/;
