import { RunError } from './errors.ts';
import { jsonText } from './json.ts';

/** What survives being written as JSON and read again. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [field: string]: Json };

/** Leaves room for what is put around it, where 64 levels are the end. */
const maxDepth = 48;

/**
 * A frozen copy of a value that is JSON: fields that are undefined are left out, as in JSON. Throws `validation` for
 * anything else (functions, dates, instances of classes, NaN, cycles), for more than 48 levels and for more than `maxBytes`.
 * The message names `what` and the place in it, never what stands there.
 */
export function jsonCopy(value: unknown, what: string, maxBytes: number): Json {
  const left = { values: maxBytes };
  const fault = faultOf(value, [], left);
  if (fault !== undefined) throw new RunError('validation', `${what} ${fault}`);
  const text = jsonText(value);
  const bytes = Buffer.byteLength(text);
  if (bytes > maxBytes) throw new RunError('validation', `${what} has ${bytes} bytes as JSON, more than ${maxBytes}`);
  return deepFreeze(JSON.parse(text) as Json);
}

/** Bytes of a value as JSON. */
export function jsonBytes(value: unknown): number {
  return Buffer.byteLength(jsonText(value) ?? '');
}

/** The same object, with everything in it frozen. Functions stay as they are. */
export function deepFreeze<T>(value: T): T {
  if (value !== null && typeof value === 'object') {
    for (const item of Object.values(value)) deepFreeze(item);
    Object.freeze(value);
  }
  return value;
}

function faultOf(value: unknown, path: readonly string[], left: { values: number }): string | undefined {
  // A value that is shared can be met more often than it can be written.
  if (left.values-- === 0) return 'is too large';
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return undefined;
  if (typeof value === 'number') return Number.isFinite(value) ? undefined : `is not JSON: ${at(path)} is not finite`;
  if (typeof value !== 'object') return `is not JSON: ${at(path)} is of type ${typeof value}`;
  if (path.length >= maxDepth) return `is nested deeper than ${maxDepth} levels`;
  if (Array.isArray(value)) return firstFault([...value.entries()], path, left);
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) return `is not JSON: ${at(path)} is no plain object`;
  const fields = Object.entries(value).filter(([, item]) => item !== undefined);
  return firstFault(fields, path, left);
}

function firstFault(
  items: readonly (readonly [string | number, unknown])[],
  path: readonly string[],
  left: { values: number },
): string | undefined {
  for (const [name, item] of items) {
    const fault = faultOf(item, [...path, String(name)], left);
    if (fault !== undefined) return fault;
  }
  return undefined;
}

function at(path: readonly string[]): string {
  return path.length === 0 ? 'it' : path.join('.').slice(0, 200);
}
