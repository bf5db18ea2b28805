import { isRecord } from '../../../shared/base/json.ts';

type Schema = Readonly<Record<string, unknown>>;

const maxAlternatives = 64;

/** The schemas that a value may have to meet at one place of the arguments. */
export type Place = readonly Schema[];

/** The place of the arguments as a whole. */
export function placeOf(schema: Schema): Place {
  return flat([schema], schema);
}

/** The place of a field, or of an item of a list. `root`: the schema that references point into. */
export function placeWithin(place: Place, name: string | number, root: Schema): Place {
  const next = place.flatMap((schema) => (typeof name === 'number' ? itemOf(schema, name) : fieldOf(schema, name)));
  return flat(next.filter(isRecord), root);
}

/** Does a schema declare a field of this name? Then the name is the author's, not the model's. */
export function isDeclared(place: Place, name: string): boolean {
  return place.some(({ properties }) => isRecord(properties) && Object.hasOwn(properties, name));
}

/** Is the value one of those that the schema lists? */
export function isListed(place: Place, value: unknown): boolean {
  return place.some((schema) => {
    const { enum: listed } = schema;
    return (Array.isArray(listed) && listed.includes(value)) || ('const' in schema && schema.const === value);
  });
}

function fieldOf({ properties, additionalProperties }: Schema, name: string): unknown[] {
  if (isRecord(properties) && Object.hasOwn(properties, name)) return [properties[name]];
  return [additionalProperties];
}

function itemOf({ items, prefixItems }: Schema, at: number): unknown[] {
  return Array.isArray(prefixItems) && at < prefixItems.length ? [prefixItems[at]] : [items];
}

/** The schemas with every alternative and reference as a schema of its own, each once. */
function flat(schemas: readonly Schema[], root: Schema): Place {
  const all = new Set(schemas);
  // What is added on the way is visited as well.
  for (const schema of all) {
    if (all.size >= maxAlternatives) break;
    for (const other of [...alternativesOf(schema), ...referenced(schema, root)]) if (isRecord(other)) all.add(other);
  }
  return [...all];
}

function alternativesOf({ anyOf, oneOf, allOf, then: ifSo, else: ifNot }: Schema): unknown[] {
  return [anyOf, oneOf, allOf].flatMap((list): unknown[] => (Array.isArray(list) ? list : [])).concat([ifSo, ifNot]);
}

function referenced({ $ref }: Schema, root: Schema): unknown[] {
  if (typeof $ref !== 'string' || !$ref.startsWith('#')) return [];
  let found: unknown = root;
  for (const part of $ref.slice(1).split('/').filter(Boolean)) {
    const name = part.replaceAll('~1', '/').replaceAll('~0', '~');
    if (typeof found !== 'object' || found === null || !Object.hasOwn(found, name)) return [];
    found = (found as Record<string, unknown>)[name];
  }
  return [found];
}
