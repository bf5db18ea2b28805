/** A JSON Schema, or a part of one. It came from an agent's tool: nothing in it is trusted to be well-formed. */
export type Schema = Readonly<Record<string, unknown>>;

/** Where a value stands in the arguments. */
export type Path = readonly (string | number)[];

/** A path in one text: its parts with dots between. A name that would read as several, or as nothing, is in quotes. */
export function pathText(path: Path): string {
  return path.map((part) => (/^[^."]+$/.test(String(part)) ? part : JSON.stringify(part))).join('.');
}

interface Common {
  readonly label: string;
  readonly description: string | undefined;
  /** Also null. */
  readonly nullable: boolean;
  /** What its schema gives a value that is left out. */
  readonly fallback: unknown;
}

/** What a person fills in for one value. */
export type FormField = Common &
  (
    | { readonly kind: 'text'; readonly long: boolean; readonly hint: string | undefined }
    | { readonly kind: 'number'; readonly whole: boolean; readonly hint: string | undefined }
    | { readonly kind: 'flag' }
    | { readonly kind: 'choice'; readonly choices: readonly unknown[] }
    | { readonly kind: 'object'; readonly properties: readonly Property[]; readonly open: boolean }
    | { readonly kind: 'list'; readonly item: FormField; readonly hint: string | undefined }
    /** What no form shows: as JSON. */
    | { readonly kind: 'json' }
  );

export interface Property {
  readonly name: string;
  readonly required: boolean;
  readonly field: FormField;
}

const maxDepth = 8;
const longTextChars = 200;

/**
 * The form of a schema. What a form cannot show (alternatives, patterns of names, recursion, types that are missing) becomes a
 * field for JSON, and so does everything from the ninth level down. Never throws.
 */
export function formOf(schema: unknown, label = ''): FormField {
  return fieldOf(schema, { label, root: isRecord(schema) ? schema : {}, depth: 0 });
}

interface Place {
  readonly label: string;
  readonly root: Schema;
  readonly depth: number;
}

function fieldOf(given: unknown, place: Place): FormField {
  const found = resolved(given, place.root);
  const common = {
    label: textIn(found?.schema, 'title') ?? place.label,
    description: textIn(found?.schema, 'description'),
    nullable: found?.nullable ?? false,
    fallback: found?.schema['default'],
  };
  if (!found || place.depth > maxDepth) return { ...common, kind: 'json' };
  const { schema } = found;
  const choices = choicesOf(schema);
  if (choices) return { ...common, kind: 'choice', choices };
  switch (typeOf(schema)) {
    case 'string':
      return { ...common, kind: 'text', long: isLong(schema), hint: textHint(schema) };
    case 'number':
    case 'integer':
      return { ...common, kind: 'number', whole: typeOf(schema) === 'integer', hint: rangeHint(schema) };
    case 'boolean':
      return { ...common, kind: 'flag' };
    case 'array':
      return listOf(schema, common, place);
    case 'object':
      return objectOf(schema, common, place);
    default:
      return { ...common, kind: 'json' };
  }
}

function listOf(schema: Schema, common: Common, place: Place): FormField {
  // Each place of a tuple has a schema of its own.
  if (!isRecord(schema['items']) || schema['prefixItems'] !== undefined) return { ...common, kind: 'json' };
  const item = fieldOf(schema['items'], { ...place, label: '', depth: place.depth + 1 });
  const bounds = [bound('at least', schema['minItems']), bound('at most', schema['maxItems'])].filter(
    (part) => part !== undefined,
  );
  return { ...common, kind: 'list', item, hint: bounds.length > 0 ? bounds.join(', ') : undefined };
}

function objectOf(schema: Schema, common: Common, place: Place): FormField {
  const { properties } = schema;
  if (!isRecord(properties) || Object.keys(properties).length === 0) return { ...common, kind: 'json' };
  const names = schema['required'];
  const required: ReadonlySet<unknown> = new Set(Array.isArray(names) ? names : []);
  // `false` stands for what the agent sets itself, and no person may give.
  const given = Object.entries(properties).filter(([, each]) => each !== false);
  const fields = given.map(([name, each]) => ({
    name,
    required: required.has(name),
    field: fieldOf(each, { ...place, label: name, depth: place.depth + 1 }),
  }));
  // Those that have to be filled in come first, in the order of the schema.
  const ordered = [...fields.filter((each) => each.required), ...fields.filter((each) => !each.required)];
  return { ...common, kind: 'object', properties: ordered, open: schema['additionalProperties'] !== false };
}

/** A schema without its references and with one meaning, or undefined when it has several or cannot be followed. */
function resolved(given: unknown, root: Schema): { readonly schema: Schema; readonly nullable: boolean } | undefined {
  let schema = given;
  let nullable = false;
  for (let steps = 0; steps < maxDepth; steps++) {
    if (!isRecord(schema)) return undefined;
    const types = schema['type'];
    if (Array.isArray(types)) {
      const others = types.filter((type) => type !== 'null');
      if (others.length !== 1) return undefined;
      schema = { ...schema, type: others[0] as unknown };
      nullable ||= types.length > others.length;
      continue;
    }
    const reference = schema['$ref'];
    if (typeof reference === 'string') {
      const { $ref: _, ...beside } = schema;
      const target = pointed(reference, root);
      if (!isRecord(target)) return undefined;
      schema = { ...target, ...beside };
      continue;
    }
    const meant = onlyMeaning(schema);
    if (meant === 'unclear') return undefined;
    if (meant === undefined) return { schema, nullable };
    schema = meant.schema;
    nullable ||= meant.nullable;
  }
  return undefined;
}

/** The one branch of `anyOf`, `oneOf` or `allOf`, apart from null. Undefined: there is none of the three. */
function onlyMeaning(schema: Schema): { readonly schema: Schema; readonly nullable: boolean } | 'unclear' | undefined {
  const used = (['anyOf', 'oneOf', 'allOf'] as const).filter((word) => Array.isArray(schema[word]));
  const [word] = used;
  if (word === undefined) return undefined;
  if (used.length > 1) return 'unclear';
  const { [word]: branches, ...beside } = schema;
  const all = branches as readonly unknown[];
  const others = all.filter((branch) => !(isRecord(branch) && branch['type'] === 'null'));
  const [only] = others;
  if (others.length !== 1 || !isRecord(only)) return 'unclear';
  return { schema: { ...only, ...beside }, nullable: word !== 'allOf' && others.length < all.length };
}

/** What `#/$defs/name` points at. */
function pointed(reference: string, root: Schema): unknown {
  if (reference === '#') return root;
  if (!reference.startsWith('#/')) return undefined;
  let at: unknown = root;
  for (const part of reference.slice(2).split('/')) {
    const name = part.replaceAll('~1', '/').replaceAll('~0', '~');
    if (!isRecord(at) || !Object.hasOwn(at, name)) return undefined;
    at = at[name];
  }
  return at;
}

function choicesOf(schema: Schema): readonly unknown[] | undefined {
  if (Object.hasOwn(schema, 'const')) return [schema['const']];
  const values = schema['enum'];
  return Array.isArray(values) && values.length > 0 ? values : undefined;
}

function typeOf(schema: Schema): unknown {
  if (schema['type'] !== undefined) return schema['type'];
  return isRecord(schema['properties']) ? 'object' : undefined;
}

function isLong(schema: Schema): boolean {
  return typeof schema['maxLength'] === 'number' && schema['maxLength'] > longTextChars;
}

function textHint(schema: Schema): string | undefined {
  const parts = [
    typeof schema['format'] === 'string' ? schema['format'] : undefined,
    bound('at least', schema['minLength'], 'characters'),
    bound('at most', schema['maxLength'], 'characters'),
    typeof schema['pattern'] === 'string' ? `like ${schema['pattern']}` : undefined,
  ].filter((part) => part !== undefined);
  return parts.length > 0 ? parts.join(', ') : undefined;
}

function rangeHint(schema: Schema): string | undefined {
  const parts = [
    bound('at least', schema['minimum']),
    bound('more than', schema['exclusiveMinimum']),
    bound('at most', schema['maximum']),
    bound('less than', schema['exclusiveMaximum']),
    bound('a multiple of', schema['multipleOf']),
  ].filter((part) => part !== undefined);
  return parts.length > 0 ? parts.join(', ') : undefined;
}

function bound(words: string, value: unknown, unit?: string): string | undefined {
  // Schemas made from code often bound whole numbers by what a number can hold: that says nothing to a person.
  if (typeof value !== 'number' || Math.abs(value) >= Number.MAX_SAFE_INTEGER) return undefined;
  return [words, value, unit].filter((part) => part !== undefined).join(' ');
}

/** A schema that fits this value, for calls whose own schema is not known. */
export function schemaFor(value: unknown): Schema {
  if (typeof value === 'string')
    return { type: 'string', ...(value.length > longTextChars && { maxLength: Number.MAX_VALUE }) };
  if (typeof value === 'number') return { type: 'number' };
  if (typeof value === 'boolean') return { type: 'boolean' };
  if (Array.isArray(value)) {
    const kinds = new Set(value.map((item) => JSON.stringify(schemaFor(item))));
    return kinds.size === 1 ? { type: 'array', items: schemaFor(value[0]) } : {};
  }
  if (!isRecord(value)) return {};
  const properties = Object.fromEntries(Object.entries(value).map(([name, each]) => [name, schemaFor(each)]));
  return { type: 'object', properties };
}

/** A value to begin with when a person adds one. */
export function firstValue(field: FormField): unknown {
  if (field.fallback !== undefined) return field.fallback;
  switch (field.kind) {
    case 'text':
      return '';
    case 'number':
      return 0;
    case 'flag':
      return false;
    case 'choice':
      return field.choices[0];
    case 'list':
      return [];
    case 'object':
      return Object.fromEntries(
        field.properties.filter((each) => each.required).map((each) => [each.name, firstValue(each.field)]),
      );
    case 'json':
      return null;
    default:
      throw new Error(`no such field: ${String(field satisfies never)}`);
  }
}

export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function textIn(schema: Schema | undefined, name: string): string | undefined {
  const value = schema?.[name];
  return typeof value === 'string' && value !== '' ? value : undefined;
}
