import { isRecord, jsonText } from '../../../shared/base/json.ts';
import type { CatalogueEntry } from '../tool.ts';

const maxSignatureChars = 2_000;
const maxDescriptionChars = 400;
const maxParameterChars = 160;
const maxDepth = 6;
/** Of a schema that its server may have made to be endless. */
const maxNodes = 200;
const maxUnion = 20;

/** A tool as a declaration in TypeScript, for a model that is to write a call of it. Bounded, whatever the schema. */
export function signatureOf({ name, description, parameters, gated }: CatalogueEntry): string {
  const types = new Types(parameters);
  const what = gated ? `${description} NEEDS APPROVAL: call it directly, a script cannot.` : description;
  const documented = Object.entries(record(parameters['properties'])).flatMap(([parameter, schema]) => {
    const text = record(schema)['description'];
    return typeof text === 'string' && text !== ''
      ? [` @param args.${parameter} ${line(text, maxParameterChars)}`]
      : [];
  });
  const args = types.of(parameters, 0);
  const optional = Array.isArray(parameters['required']) && parameters['required'].length > 0 ? '' : '?';
  const declaration = `${callee(name)}(args${optional}: ${args === 'unknown' ? 'object' : args}): Promise<unknown>`;
  const comment = [` ${line(what, maxDescriptionChars)}`, ...documented.map((text) => `\n *${text}`)].join('');
  const whole = documented.length > 0 ? `/**\n *${comment}\n */\n${declaration}` : `/**${comment} */\n${declaration}`;
  if (whole.length <= maxSignatureChars) return whole;
  const short = `/** ${line(what, maxDescriptionChars)} */\n${declaration}`;
  return short.length <= maxSignatureChars
    ? short
    : `/** ${line(what, maxDescriptionChars)} */\n${callee(name)}(args: object): Promise<unknown>`;
}

/** How a script names the tool. */
function callee(name: string): string {
  return isIdentifier(name) ? `tools.${name}` : `tools[${quoted(name)}]`;
}

const scalars: ReadonlyMap<unknown, string> = new Map(
  Object.entries({ string: 'string', number: 'number', integer: 'number', boolean: 'boolean', null: 'null' }),
);

/** JSON Schema as TypeScript: close enough to write a call, never a proof. */
class Types {
  readonly #root: Record<string, unknown>;
  #left = maxNodes;

  constructor(root: Record<string, unknown>) {
    this.#root = root;
  }

  of(schema: unknown, depth: number): string {
    if (--this.#left < 0 || depth > maxDepth) return 'unknown';
    const it = record(schema);
    if (typeof it['$ref'] === 'string') return this.of(this.#resolve(it['$ref']), depth + 1);
    if ('const' in it) return literal(it['const']);
    if (Array.isArray(it['enum'])) return union(it['enum'].slice(0, maxUnion + 1).map(literal));
    for (const key of ['anyOf', 'oneOf']) {
      const options = it[key];
      if (Array.isArray(options))
        return union(options.slice(0, maxUnion + 1).map((option) => this.of(option, depth + 1)));
    }
    if (Array.isArray(it['allOf']))
      return (
        it['allOf']
          .slice(0, maxUnion)
          .map((part) => this.of(part, depth + 1))
          .join(' & ') || 'unknown'
      );
    if (Array.isArray(it['type']))
      return union(it['type'].slice(0, 8).map((type) => this.#named({ ...it, type }, depth)));
    return this.#named(it, depth);
  }

  #named(it: Record<string, unknown>, depth: number): string {
    const type = it['type'] ?? ('properties' in it ? 'object' : undefined);
    if (type === 'array') return this.#array(it, depth);
    return type === 'object' ? this.#object(it, depth) : (scalars.get(type) ?? 'unknown');
  }

  #array(it: Record<string, unknown>, depth: number): string {
    if (Array.isArray(it['prefixItems']))
      return `[${it['prefixItems']
        .slice(0, maxUnion)
        .map((item) => this.of(item, depth + 1))
        .join(', ')}]`;
    const item = this.of(it['items'], depth + 1);
    return / [|&] /.test(item) ? `(${item})[]` : `${item}[]`;
  }

  #object(it: Record<string, unknown>, depth: number): string {
    const required = new Set(Array.isArray(it['required']) ? it['required'] : []);
    const fields: string[] = [];
    for (const [name, schema] of Object.entries(record(it['properties']))) {
      if (this.#left <= 0) break;
      const key = isIdentifier(name) ? name : quoted(name);
      fields.push(`${key}${required.has(name) ? '' : '?'}: ${this.of(schema, depth + 1)}`);
    }
    if (fields.length > 0) return `{ ${fields.join('; ')} }`;
    const others = it['additionalProperties'];
    if (others === false) return '{}';
    return `Record<string, ${typeof others === 'object' ? this.of(others, depth + 1) : 'unknown'}>`;
  }

  /** Only within the schema itself: nothing is ever fetched. */
  #resolve(reference: string): unknown {
    if (reference === '#') return this.#root;
    if (!reference.startsWith('#/')) return undefined;
    let at: unknown = this.#root;
    for (const part of reference.slice(2).split('/').slice(0, 16)) {
      const key = part.replaceAll('~1', '/').replaceAll('~0', '~');
      if (at === null || typeof at !== 'object' || !Object.hasOwn(at, key)) return undefined;
      at = Reflect.get(at, key);
    }
    return at;
  }
}

function record(value: unknown): Record<string, unknown> {
  return isRecord(value) ? value : {};
}

function union(parts: readonly string[]): string {
  const different = [...new Set(parts.slice(0, maxUnion))];
  if (parts.length > maxUnion) different.push('unknown');
  return different.join(' | ') || 'unknown';
}

function literal(value: unknown): string {
  if (typeof value === 'string') return quoted(value);
  return value === null || typeof value === 'number' || typeof value === 'boolean' ? String(value) : 'unknown';
}

function quoted(text: string): string {
  return jsonText(text.slice(0, 64).toWellFormed());
}

function isIdentifier(name: string): boolean {
  return /^[A-Za-z_$][\w$]{0,63}$/.test(name);
}

/** One line of a comment, which it cannot end. */
function line(text: string, maxChars: number): string {
  const cut = text.length > maxChars ? `${text.slice(0, maxChars)}…` : text;
  return cut.toWellFormed().replaceAll(/\s+/g, ' ').replaceAll('*/', '* /').trim();
}
