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
  const what = gated ? `${description} NEEDS APPROVAL: call it directly, a script cannot.` : description;
  const documented = Object.entries(record(parameters['properties'])).flatMap(([parameter, schema]) => {
    const text = record(schema)['description'];
    return typeof text === 'string' && text !== ''
      ? [` @param args.${parameter} ${line(text, maxParameterChars)}`]
      : [];
  });
  const args = typesIn(parameters)(parameters, 0);
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

/** Writes parts of a JSON Schema as TypeScript: close enough to write a call, never a proof. */
function typesIn(root: Record<string, unknown>): (schema: unknown, depth: number) => string {
  let left = maxNodes;

  function typeOf(schema: unknown, depth: number): string {
    if (--left < 0 || depth > maxDepth) return 'unknown';
    const it = record(schema);
    const inner = (part: unknown) => typeOf(part, depth + 1);
    if (typeof it['$ref'] === 'string') return inner(resolved(it['$ref']));
    if ('const' in it) return literal(it['const']);
    if (Array.isArray(it['enum'])) return union(it['enum'].slice(0, maxUnion + 1).map(literal));
    const options = [it['anyOf'], it['oneOf']].find((some) => Array.isArray(some));
    if (options) return union(options.slice(0, maxUnion + 1).map(inner));
    if (Array.isArray(it['allOf'])) return it['allOf'].slice(0, maxUnion).map(inner).join(' & ') || 'unknown';
    if (!Array.isArray(it['type'])) return named(it, inner);
    return union(it['type'].slice(0, 8).map((type) => named({ ...it, type }, inner)));
  }

  function named(it: Record<string, unknown>, inner: (part: unknown) => string): string {
    const type = it['type'] ?? ('properties' in it ? 'object' : undefined);
    if (type === 'object') return object(it, inner);
    if (type !== 'array') return scalars.get(type) ?? 'unknown';
    if (Array.isArray(it['prefixItems'])) return `[${it['prefixItems'].slice(0, maxUnion).map(inner).join(', ')}]`;
    const item = inner(it['items']);
    return / [|&] /.test(item) ? `(${item})[]` : `${item}[]`;
  }

  function object(it: Record<string, unknown>, inner: (part: unknown) => string): string {
    const required = new Set(Array.isArray(it['required']) ? it['required'] : []);
    const fields: string[] = [];
    for (const [name, schema] of Object.entries(record(it['properties']))) {
      if (left <= 0) break;
      const key = isIdentifier(name) ? name : quoted(name);
      fields.push(`${key}${required.has(name) ? '' : '?'}: ${inner(schema)}`);
    }
    if (fields.length > 0) return `{ ${fields.join('; ')} }`;
    const others = it['additionalProperties'];
    if (others === false) return '{}';
    return `Record<string, ${typeof others === 'object' ? inner(others) : 'unknown'}>`;
  }

  /** Only within the schema itself: nothing is ever fetched. */
  function resolved(reference: string): unknown {
    if (reference === '#') return root;
    if (!reference.startsWith('#/')) return undefined;
    let at: unknown = root;
    for (const part of reference.slice(2).split('/').slice(0, 16)) {
      const key = part.replaceAll('~1', '/').replaceAll('~0', '~');
      if (at === null || typeof at !== 'object' || !Object.hasOwn(at, key)) return undefined;
      at = Reflect.get(at, key);
    }
    return at;
  }

  return typeOf;
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
