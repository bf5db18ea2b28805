import { isRecord, jsonOr } from '../../shared/base/json.ts';
import type { ToolOptions } from '../../shared/contract/agent/agent.ts';
import { ToolError } from './tool-error.ts';

/** What the run knows, by the names that paths begin with. */
export type MappingSource = Readonly<Record<string, unknown>>;

/** Arguments that come from the run. Throws a `ToolError` naming what this run does not have. */
export function mappedArgs(
  mapping: NonNullable<ToolOptions['inputMapping']>,
  source: MappingSource,
): Readonly<Record<string, unknown>> {
  const found = Object.entries(mapping).map(([name, path]) => ({ name, path, value: valueAt(path, source) }));
  const missing = found.filter(({ value }) => value === undefined || value === null).map(({ path }) => path);
  if (missing.length > 0)
    throw new ToolError('capability_blocked', `this run has no ${missing.join(', ')}, which the call needs`);
  return Object.fromEntries(found.map(({ name, value }) => [name, value]));
}

/**
 * The parts of a result that an agent wants: one value, or an object of those that are there. A text counts as the JSON that it
 * is. Throws a `ToolError` where there is none of them.
 */
export function mappedResult(mapping: NonNullable<ToolOptions['outputMapping']>, value: unknown): unknown {
  const whole = typeof value === 'string' ? jsonOr(value, undefined) : value;
  if (typeof mapping === 'string') {
    const part = valueAt(mapping, whole);
    if (part === undefined) throw withoutParts([mapping]);
    return part;
  }
  const parts = Object.entries(mapping).map(([name, path]) => [name, valueAt(path, whole)] as const);
  const there = parts.filter(([, part]) => part !== undefined);
  if (there.length === 0) throw withoutParts(Object.values(mapping));
  return Object.fromEntries(there);
}

function withoutParts(paths: readonly string[]): ToolError {
  return new ToolError('invalid_output', `its result has no ${paths.join(', ')}, which outputMapping takes`);
}

/** Own fields and places of lists only: a result may have any names. */
function valueAt(path: string, from: unknown): unknown {
  return path.split('.').reduce<unknown>((at, name) => {
    if (!isRecord(at) && !Array.isArray(at)) return undefined;
    return Object.hasOwn(at, name) ? (at as Readonly<Record<string, unknown>>)[name] : undefined;
  }, from);
}
