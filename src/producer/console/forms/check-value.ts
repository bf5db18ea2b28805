import { Validator, type OutputUnit } from '@cfworker/json-schema';
import { isRecord, pathText, type Schema } from './schema-form.ts';

/** What is wrong with the value at a path, written with dots; `''` is the whole. */
export type Problems = ReadonlyMap<string, string>;

const maxProblems = 50;

/**
 * Checks a value against a schema by interpreting it: compiled code is what the content-security policy forbids. Patterns and
 * formats are left to the producer, which checks everything again before anything is decided: a stranger's pattern could
 * stop this page. A schema that cannot be followed finds nothing wrong. Never throws.
 */
export function checkValue(schema: unknown, value: unknown): Problems {
  if (!isRecord(schema) || value === undefined) return new Map();
  try {
    const safe = withoutPatterns(schema) as Schema;
    const { errors } = new Validator({ ...safe }, '2020-12', false).validate(value);
    return problemsOf(errors);
  } catch {
    return new Map();
  }
}

/** Words whose errors only say that something inside is wrong. */
const containers: ReadonlySet<string> = new Set([
  'properties',
  'items',
  'prefixItems',
  'additionalProperties',
  '$ref',
  'allOf',
  'if',
  'then',
  'else',
]);

function problemsOf(errors: readonly OutputUnit[]): Problems {
  const found = new Map<string, string>();
  const plain = errors.filter(({ keyword }) => !containers.has(keyword));
  // What a branch says is plainer than that no branch fits.
  const ordered = [
    ...plain.filter(({ keyword }) => !isChoice(keyword)),
    ...plain.filter(({ keyword }) => isChoice(keyword)),
  ];
  for (const { instanceLocation, keyword, error } of ordered) {
    const missing = keyword === 'required' ? /"([^"]+)"\.?$/.exec(error)?.[1] : undefined;
    const path = pathText([...partsOf(instanceLocation), ...(missing === undefined ? [] : [missing])]);
    const text = missing === undefined ? inWords(keyword, error) : 'must be given';
    if (found.size < maxProblems && !found.has(path)) found.set(path, text);
  }
  return found;
}

function isChoice(keyword: string): boolean {
  return keyword === 'anyOf' || keyword === 'oneOf';
}

function partsOf(location: string): readonly string[] {
  return location
    .split('/')
    .slice(1)
    .map((part) => decodeURIComponent(part).replaceAll('~1', '/').replaceAll('~0', '~'));
}

function inWords(keyword: string, error: string): string {
  const quoted = [...error.matchAll(/"([^"]*)"/g)].map(([, text]) => text);
  switch (keyword) {
    case 'type':
      return `must be ${quoted.slice(1).join(' or ') || 'of another type'}`;
    case 'enum':
    case 'const':
      return 'must be one of the choices';
    case 'anyOf':
    case 'oneOf':
      return 'fits none of the forms that the tool takes, or several';
    case 'unevaluatedProperties':
    case 'false':
      return 'must not be given';
    default:
      return error.charAt(0).toLowerCase() + error.slice(1).replace(/\.$/, '');
  }
}

const left: ReadonlySet<string> = new Set(['pattern', 'patternProperties', 'format', '$schema', '$id']);
const named: ReadonlySet<string> = new Set(['properties', '$defs', 'definitions', 'dependentSchemas']);

function withoutPatterns(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(withoutPatterns);
  if (!isRecord(schema)) return schema;
  // With patterns of names gone, what they allowed must not count as unknown.
  const isLoose = schema['patternProperties'] !== undefined;
  const kept = Object.entries(schema).filter(
    ([word]) => !left.has(word) && !(isLoose && (word === 'additionalProperties' || word === 'unevaluatedProperties')),
  );
  return Object.fromEntries(
    kept.map(([word, value]) => {
      if (word === 'enum' || word === 'const' || word === 'default') return [word, value];
      // Below these words stand names, not words of the language.
      if (named.has(word) && isRecord(value))
        return [word, Object.fromEntries(Object.entries(value).map(([name, each]) => [name, withoutPatterns(each)]))];
      return [word, withoutPatterns(value)];
    }),
  );
}

/** What the producer found, from the details of its `validation` error: `approvals.0.updatedArgs` with `path: problem`. */
export function refusedFields(details: unknown): Problems {
  if (!Array.isArray(details)) return new Map();
  const found = details.flatMap((detail: unknown) => {
    if (!isRecord(detail) || typeof detail['path'] !== 'string' || typeof detail['message'] !== 'string') return [];
    if (!detail['path'].endsWith('updatedArgs')) return [];
    const [, path = '', problem = detail['message']] = /^([^:\s]+): (.*)$/s.exec(detail['message']) ?? [];
    return [[path === 'arguments' ? '' : path, problem] as const];
  });
  return new Map(found);
}
