import type { ConsoleSessions } from '../../src/shared/state/console-sessions.ts';
import { ProducerMetrics } from '../../src/producer/http/metrics.ts';
import { createServer } from '../../src/producer/http/server.ts';
import type { Millrace } from '../../src/producer/client/millrace.ts';
import { silentLog } from '../../src/shared/base/log.ts';
import { Redactor } from '../../src/shared/base/redact.ts';
import { code, fieldTable, refName, table, typeName, type JsonSchema } from './json-schema.ts';

interface Content {
  readonly content?: Readonly<Record<string, { readonly schema?: JsonSchema }>>;
  readonly description?: string;
}
interface Operation {
  readonly summary?: string;
  readonly description?: string;
  readonly security?: readonly { readonly apiKey?: readonly string[] }[];
  readonly parameters?: readonly {
    name: string;
    in: string;
    required?: boolean;
    description?: string;
    schema: JsonSchema;
  }[];
  readonly requestBody?: Content;
  readonly responses: Readonly<Record<string, Content>>;
}
interface OpenApi {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, JsonSchema>> };
}

const intro = `# HTTP

JSON in UTF-8. The same as a machine reads it: \`GET /openapi.json\`. When API keys are configured, every route except
those marked open needs \`Authorization: Bearer KEY\`; a run of another tenant answers 404. Every error has the body
[Error](#error) with a code of the [error table](errors.md); 429 and 503 carry \`Retry-After\`. While Redis is away routes
answer 503 within 5 seconds. \`GET /\` is the console.`;

/** Every route, from the OpenAPI document of the server itself. */
export async function httpPage(): Promise<string> {
  const { paths, components } = await openApi();
  const used = schemasOf(paths, components.schemas);
  const routes = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).flatMap(([method, operation]) => routeSection(method, path, operation)),
  );
  const schemas = Object.entries(components.schemas).filter(([name]) => used.has(name));
  return [intro, '## Routes', ...routes, '## Schemas', ...schemas.flatMap(schemaSection)].join('\n\n');
}

/** Names of the schemas that the routes speak of, directly or through another schema. */
function schemasOf(
  part: unknown,
  all: Readonly<Record<string, JsonSchema>>,
  found = new Set<string>(),
): ReadonlySet<string> {
  for (const [, name = ''] of JSON.stringify(part).matchAll(/"#\/components\/schemas\/(\w+)"/g)) {
    if (found.has(name)) continue;
    found.add(name);
    // The variants of an event have a page of their own.
    if (name !== 'Event') schemasOf(all[name], all, found);
  }
  return found;
}

async function openApi(): Promise<OpenApi> {
  const server = await createServer({
    // Routes are only described here: no request reaches the client.
    mill: {} as Millrace,
    config: { MILLRACE_DURABILITY: 'any' },
    log: silentLog,
    redactor: new Redactor(),
    apiKeys: [],
    metrics: new ProducerMetrics(() => Promise.resolve({})),
    sessions: {} as ConsoleSessions,
  });
  await server.app.ready();
  const document: unknown = server.app.swagger();
  await server.close();
  return document as OpenApi;
}

function routeSection(method: string, path: string, operation: Operation): string[] {
  const { summary, description, parameters = [], requestBody, responses } = operation;
  const lines = [
    `### ${code(`${method.toUpperCase()} ${path}`)}`,
    `${summary}. ${description ?? ''}`.replace('?.', '?').trim(),
  ];
  const scope = operation.security?.[0]?.apiKey?.[0];
  lines.push(scope === undefined ? 'Open: needs no key.' : `Scope: ${code(scope)}.`);
  if (parameters.length > 0) {
    const rows = parameters.map((p) => [
      code(p.required ? p.name : `${p.name}?`),
      p.in,
      typeName(p.schema),
      p.description ?? p.schema.description ?? '',
    ]);
    lines.push(table(['parameter', 'in', 'type', 'meaning'], rows));
  }
  if (requestBody) lines.push(`Body: ${contentName(requestBody)}`);
  const answers = Object.entries(responses).map(([status, answer]) => [
    status.toUpperCase(),
    contentName(answer),
    meaningOf(answer),
  ]);
  lines.push(table(['status', 'answer', 'meaning'], answers));
  return lines;
}

function contentName({ content = {} }: Content): string {
  const byType = new Map<string, string[]>();
  for (const [mediaType, { schema }] of Object.entries(content)) {
    const name = schema ? typeName(schema) : 'text';
    byType.set(name, [...(byType.get(name) ?? []), mediaType]);
  }
  return [...byType]
    .map(([name, types]) => (types.join() === 'application/json' ? name : `${name} as ${types.map(code).join(' or ')}`))
    .join(', ');
}

/** The framework's text for an answer without a description says nothing. */
function meaningOf({ description = '' }: Content): string {
  return description === 'Default Response' ? '' : description;
}

function schemaSection([name, schema]: [string, JsonSchema]): string[] {
  const title = refName(name);
  if (title === 'Event') return [`### ${title}`, 'One of the [event types](events.md).'];
  return [`### ${title}`, schema.properties ? fieldTable(schema) : typeName(schema)];
}
