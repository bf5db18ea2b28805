/** The parts of JSON Schema that our schemas turn into. */
export interface JsonSchema {
  readonly type?: string | readonly string[];
  readonly description?: string;
  readonly default?: unknown;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly required?: readonly string[];
  readonly items?: JsonSchema;
  readonly anyOf?: readonly JsonSchema[];
  readonly allOf?: readonly JsonSchema[];
  readonly oneOf?: readonly JsonSchema[];
  readonly additionalProperties?: JsonSchema | boolean;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly pattern?: string;
  readonly format?: string;
  readonly $ref?: string;
}

/** A schema in a few words, for a table cell: `integer ≥ 0`, `"a" or "b"`, `array of { id, name? }`. */
export function typeName(schema: JsonSchema): string {
  if (schema.$ref) return `[${refName(schema.$ref)}](http.md#${refName(schema.$ref).toLowerCase()})`;
  if (schema.const !== undefined) return code(JSON.stringify(schema.const));
  if (schema.enum) return schema.enum.map((value) => code(JSON.stringify(value))).join(' or ');
  const variants = schema.anyOf ?? schema.oneOf;
  if (variants) return [...new Set(variants.map(typeName))].join(' or ');
  if (schema.allOf) return schema.allOf.map(typeName).join(' and ');
  if (schema.type === 'array') return `array of ${typeName(schema.items ?? {})}`;
  if (schema.type === 'object') return objectName(schema);
  if (schema.type === undefined) return 'any';
  return `${[schema.type].flat().join(' or ')}${range(schema)}`;
}

function objectName({ properties, required = [], additionalProperties }: JsonSchema): string {
  if (properties && Object.keys(properties).length > 0) {
    const names = Object.keys(properties).map((name) => (required.includes(name) ? name : `${name}?`));
    return `object ${code(`{ ${names.join(', ')} }`)}`;
  }
  const values = typeof additionalProperties === 'object' ? typeName(additionalProperties) : 'any';
  return values === 'any' ? 'object' : `object of ${values} by name`;
}

/** Zod bounds every integer by what a double holds exactly; no cell repeats that. */
function range({ minimum, maximum }: JsonSchema): string {
  const low = minimum !== undefined && minimum > Number.MIN_SAFE_INTEGER ? minimum : undefined;
  const high = maximum !== undefined && maximum < Number.MAX_SAFE_INTEGER ? maximum : undefined;
  if (low !== undefined && high !== undefined) return ` ${low} to ${high}`;
  if (low !== undefined) return ` ≥ ${low}`;
  return high === undefined ? '' : ` ≤ ${high}`;
}

/** One row per field: name, type, meaning. An optional field's name has a question mark, as in TypeScript. */
export function fieldTable(schema: JsonSchema): string {
  const { properties = {}, required = [] } = schema;
  const rows = Object.entries(properties).map(([name, field]) => {
    const isRequired = required.includes(name) && field.default === undefined;
    const fallback = field.default === undefined ? '' : `Default ${code(JSON.stringify(field.default))}.`;
    return [
      code(isRequired ? name : `${name}?`),
      typeName(field),
      [field.description, fallback].filter(Boolean).join(' '),
    ];
  });
  return table(['field', 'type', 'meaning'], rows);
}

/** A Markdown table. Columns that are empty in every row are left out. */
export function table(heads: readonly string[], rows: readonly (readonly string[])[]): string {
  const used = heads.map((_, column) => rows.some((row) => row[column]));
  const line = (cells: readonly string[]) =>
    `| ${cells
      .filter((_, column) => used[column])
      .map(cell)
      .join(' | ')} |`;
  return [line(heads), line(heads.map(() => '---')), ...rows.map(line)].join('\n');
}

function cell(text: string): string {
  return text.replaceAll('|', '\\|').replaceAll('\n', ' ');
}

export function code(text: string): string {
  return `\`${text}\``;
}

/** The name of a schema. What a caller sends and what we answer have two names only where one route has both. */
export function refName(ref: string): string {
  return (ref.split('/').at(-1) ?? ref).replace(/Input$/, '');
}
