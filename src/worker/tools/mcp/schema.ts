import { isRecord, jsonText } from '../../../shared/base/json.ts';
import { Ajv } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { withoutHidden } from '../../guards/folded-text.ts';
import { clip } from '../../../shared/base/text.ts';
import { linearRegExp, type ArgumentSchema, type SchemaDialect } from '../../../shared/base/argument-checks.ts';
import { maxSchemaBytes, maxSchemaDepth, maxSchemaTextChars } from './limits.ts';

/** The schema of a server's tool, fit for use. */
export interface BoundSchema extends ArgumentSchema {
  /** As the model sees it. */
  readonly parameters: Record<string, unknown>;
  /** Patterns that are left to the server. */
  readonly droppedPatterns: number;
}

export type SchemaOrProblem =
  | { readonly kind: 'fit'; readonly schema: BoundSchema }
  | { readonly kind: 'unfit'; readonly problem: string };

type Fields = Record<string, unknown>;

const words = (text: string): ReadonlySet<string> => new Set(text.split(' '));

/** Keywords whose values are written for readers. */
export const textKeywords = words('description title $comment');
/** Their values are data, or names that a caller may choose, and no schemas. */
export const dataKeywords = words('const enum default examples required dependentRequired');
export const schemaMaps = words('properties patternProperties $defs definitions dependentSchemas dependencies');
const hiddenKeywords = words('$schema $id id $comment');

/**
 * Checks a schema that a stranger wrote: an object schema, valid, not too large or deep, that refers to nothing
 * outside itself. Texts are cut and rid of invisible characters. Patterns that RE2 does not take (lookaround, references back)
 * are left to the server.
 */
export function boundSchema(given: unknown): SchemaOrProblem {
  const unfit = (problem: string) => ({ kind: 'unfit', problem }) as const;
  if (!isRecord(given)) return unfit('its schema is no object');
  const size = sizeOf(given);
  if (size === undefined) return unfit(`its schema is nested deeper than ${maxSchemaDepth} levels`);
  if (size > maxSchemaBytes) return unfit(`its schema is larger than ${maxSchemaBytes} bytes`);
  if ((given['type'] ?? 'object') !== 'object') return unfit('its schema is not that of an object');
  const dialect = dialectOf(given['$schema']);
  if (!dialect) return unfit('its schema is written in a dialect other than draft-07 and 2020-12');
  const root: Fields = { ...given, type: 'object', properties: given['properties'] ?? {} };
  const walk: Walk = { root, dropped: 0 };
  const parameters = copied(root, walk, 'shown') as Fields;
  if (walk.badReference !== undefined)
    return unfit(`its schema refers to ${clip(walk.badReference, 100)}, which is not in it`);
  if (!metaFor(dialect).validateSchema({ ...parameters })) return unfit('its schema is not a valid JSON Schema');
  walk.dropped = 0;
  const checked = copied(root, walk, 'checked') as Fields;
  return { kind: 'fit', schema: { parameters, checked, dialect, droppedPatterns: walk.dropped } };
}

/**
 * A schema of a tool for the check of arguments: without patterns that could run for ever, and with its texts (cut, and without
 * hidden characters) only where it is `asked`, for a person who fills it in.
 */
export function checkedForm(
  parameters: Readonly<Record<string, unknown>>,
  purpose: 'checked' | 'asked' = 'checked',
): Record<string, unknown> {
  const root = { ...parameters };
  return copied(root, { root, dropped: 0 }, purpose) as Fields;
}

/** Bytes of JSON, or undefined when it is nested too deeply. Never recurses further than that. */
function sizeOf(value: unknown): number | undefined {
  const isTooDeep = (item: unknown, depth: number): boolean =>
    item !== null &&
    typeof item === 'object' &&
    (depth >= maxSchemaDepth || Object.values(item).some((inner) => isTooDeep(inner, depth + 1)));
  return isTooDeep(value, 0) ? undefined : Buffer.byteLength(jsonText(value));
}

function dialectOf(named: unknown): SchemaDialect | undefined {
  if (named === undefined) return '2020-12';
  if (typeof named !== 'string') return undefined;
  if (/^https?:\/\/json-schema\.org\/draft-0[467]\/schema#?$/.test(named)) return 'draft-07';
  return /^https?:\/\/json-schema\.org\/draft\/20(19-09|20-12)\/schema#?$/.test(named) ? '2020-12' : undefined;
}

interface Walk {
  readonly root: Fields;
  dropped: number;
  badReference?: string;
}

function copied(schema: unknown, walk: Walk, purpose: 'shown' | 'checked' | 'asked'): unknown {
  if (!isRecord(schema)) return schema;
  const entries: [string, unknown][] = [];
  let droppedNames = false;
  for (const [keyword, value] of Object.entries(schema)) {
    if (hiddenKeywords.has(keyword)) continue;
    if (dataKeywords.has(keyword)) entries.push([keyword, value]);
    else if (typeof value === 'string' && textKeywords.has(keyword)) {
      if (purpose !== 'checked') entries.push([keyword, clip(withoutHidden(value), maxSchemaTextChars)]);
    } else if (keyword === '$ref' || keyword === '$dynamicRef' || keyword === '$recursiveRef') {
      if (!pointsInside(value, walk.root)) walk.badReference ??= String(value);
      entries.push([keyword, value]);
    } else if (keyword === 'pattern' && purpose !== 'shown' && !acceptsPattern(value)) walk.dropped++;
    else if (schemaMaps.has(keyword) && isRecord(value)) {
      const isRefused = (name: string) =>
        keyword === 'patternProperties' && purpose !== 'shown' && !acceptsPattern(name);
      const named = Object.entries(value);
      const kept = named.filter(([name]) => !isRefused(name));
      walk.dropped += named.length - kept.length;
      droppedNames ||= kept.length < named.length;
      entries.push([keyword, Object.fromEntries(kept.map(([name, inner]) => [name, copied(inner, walk, purpose)]))]);
    } else if (Array.isArray(value)) entries.push([keyword, value.map((inner) => copied(inner, walk, purpose))]);
    else entries.push([keyword, copied(value, walk, purpose)]);
  }
  // Without one of its patterns it is not known which properties are additional.
  const known = droppedNames
    ? entries.filter(([keyword]) => !/^(additional|unevaluated)Properties$/.test(keyword))
    : entries;
  return Object.fromEntries(known);
}

/** Only pointers into the schema itself; an anchor, or another document, is nothing that is looked for. */
function pointsInside(reference: unknown, root: Fields): boolean {
  if (typeof reference !== 'string' || !/^#(\/|$)/.test(reference)) return false;
  let found: unknown = root;
  for (const part of reference.split('/').slice(1)) {
    const name = decoded(part);
    if (name === undefined || !isObject(found) || !Object.hasOwn(found, name)) return false;
    found = (found as Fields)[name];
  }
  return isRecord(found) || typeof found === 'boolean';
}

function decoded(part: string): string | undefined {
  try {
    return decodeURIComponent(part).replaceAll('~1', '/').replaceAll('~0', '~');
  } catch {
    return undefined;
  }
}

const metas = new Map<SchemaDialect, Ajv>();

/** Checks schemas against the schema of schemas; made once for each dialect. */
function metaFor(dialect: SchemaDialect): Ajv {
  const known = metas.get(dialect);
  if (known) return known;
  const meta = new (dialect === 'draft-07' ? Ajv : Ajv2020)({ strict: false, logger: false });
  metas.set(dialect, meta);
  return meta;
}

function isObject(value: unknown): value is object {
  return value !== null && typeof value === 'object';
}

const maxPatternChars = 1_000;

function acceptsPattern(pattern: unknown): boolean {
  if (typeof pattern !== 'string' || pattern.length > maxPatternChars) return false;
  try {
    linearRegExp(pattern);
    return true;
  } catch {
    return false;
  }
}
