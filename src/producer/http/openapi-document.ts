import type { jsonSchemaTransformObject } from 'fastify-type-provider-zod';
import { isRecord } from '../../shared/base/json.ts';

type OpenApiDocument = ReturnType<typeof jsonSchemaTransformObject>;
type Schemas = Readonly<Record<string, unknown>>;

/**
 * The document as generators of clients read it best. Each schema is offered in the form for requests and in that for answers, and mostly
 * one of the two is ever used: the other goes. A schema stands behind those that it refers to, because some generators forget
 * half of what they made of one whose parts come later. And an object has no default, which they cannot write down.
 */
export function tidyDocument(document: OpenApiDocument): OpenApiDocument {
  if (!('components' in document) || !document.components?.schemas) return document;
  const all: Schemas = document.components.schemas;
  const roots = referencesIn({ ...document, components: undefined });
  const schemas = Object.fromEntries(
    dependenciesFirst(roots, all).map((name) => [name, withoutObjectDefaults(all[name])]),
  );
  const paths = withoutObjectDefaults(document.paths);
  return { ...document, paths, components: { ...document.components, schemas } } as OpenApiDocument;
}

const refStart = '#/components/schemas/';

function referencesIn(value: unknown, found = new Set<string>()): ReadonlySet<string> {
  if (Array.isArray(value)) for (const item of value) referencesIn(item, found);
  if (!isRecord(value)) return found;
  const { $ref } = value;
  if (typeof $ref === 'string' && $ref.startsWith(refStart)) found.add($ref.slice(refStart.length));
  for (const item of Object.values(value)) referencesIn(item, found);
  return found;
}

/** What the roots lead to, each name behind those that its schema refers to. */
function dependenciesFirst(roots: ReadonlySet<string>, schemas: Schemas): readonly string[] {
  const ordered = new Set<string>();
  const open = new Set<string>();
  const visit = (name: string) => {
    // Of schemas that refer to each other one has to be first.
    if (ordered.has(name) || open.has(name)) return;
    open.add(name);
    for (const other of [...referencesIn(schemas[name])].sort()) visit(other);
    open.delete(name);
    ordered.add(name);
  };
  for (const name of [...roots].sort()) visit(name);
  return [...ordered];
}

function withoutObjectDefaults(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutObjectDefaults);
  if (!isRecord(value)) return value;
  const entries = Object.entries(value).filter(([key, item]) => key !== 'default' || !isRecord(item) || 'type' in item);
  return Object.fromEntries(entries.map(([key, item]) => [key, withoutObjectDefaults(item)]));
}
