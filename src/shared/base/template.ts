import { RunError } from './errors.ts';
import { jsonText } from './json.ts';
import { mentionsSecrets, parseTemplate, type Filter, type Literal, type TemplatePart } from './template-syntax.ts';

/** More than this comes out of no template. */
const maxRenderedBytes = 1024 * 1024;

/** What a template may ask of the host beside its data. Absent: expressions that need it fail. */
export interface TemplateCapabilities {
  /** The text of a file that the run may read. */
  readFile?(path: string, signal: AbortSignal): Promise<string>;
}

/** What `{{ … }}` expressions refer to, by the first name of their path. */
export type TemplateData = Readonly<Record<string, unknown>>;

/**
 * A prompt with its expressions replaced. What a value contains is never read as a template again. Throws `validation`
 * for templates that cannot be read, unknown filters, values that are missing or of a wrong kind and references to
 * secrets, and `internal` with `details.reason` `tool_unavailable` for a filter whose capability the host does not have.
 */
export async function renderTemplate(
  template: string,
  data: TemplateData,
  capabilities: TemplateCapabilities,
  signal: AbortSignal,
): Promise<string> {
  if (mentionsSecrets(template)) throw new RunError('validation', 'a prompt must not refer to {{ secrets.* }}');
  return await renderParts(parseTemplate(template), data, capabilities, signal);
}

/** The same for a template that has been read already, by {@link parseTemplate}. */
export async function renderParts(
  parts: readonly TemplatePart[],
  data: TemplateData,
  capabilities: TemplateCapabilities,
  signal: AbortSignal,
): Promise<string> {
  const readFile: ReadFile = (path) => capabilities.readFile?.(path, signal);
  const pieces: string[] = [];
  let bytes = 0;
  for (const part of parts) {
    const piece = part.kind === 'text' ? part.text : await valueOf(part, data, readFile);
    bytes += Buffer.byteLength(piece);
    if (bytes > maxRenderedBytes)
      throw new RunError('validation', `the prompt is over ${maxRenderedBytes} bytes with its values in place`);
    pieces.push(piece);
  }
  return pieces.join('');
}

type ValuePart = Extract<TemplatePart, { kind: 'value' }>;
/** Undefined where the host has no files. */
type ReadFile = (path: string) => Promise<string> | undefined;

async function valueOf(part: ValuePart, data: TemplateData, readFile: ReadFile): Promise<string> {
  let value = lookUp(data, part.path);
  for (const filter of part.filters) value = await applied(filter, value, part, readFile);
  if (value === undefined)
    throw new RunError('validation', `${part.source}: there is no such value; add | default("…") if it may be missing`);
  return textOf(value);
}

/** Own fields only: a template does not reach what JavaScript adds to every object. */
function lookUp(data: TemplateData, path: readonly Literal[]): unknown {
  let value: unknown = data;
  for (const step of path) {
    if (value === null || typeof value !== 'object' || !Object.hasOwn(value, step)) return undefined;
    value = (value as Record<Literal, unknown>)[step];
  }
  return value;
}

async function applied({ name, args }: Filter, value: unknown, part: ValuePart, readFile: ReadFile): Promise<unknown> {
  if (name === 'default') return value ?? args[0] ?? '';
  if (name === 'read_file') {
    if (value === undefined) return undefined;
    if (typeof value !== 'string') throw new RunError('validation', `${part.source}: read_file needs a path`);
    const text = readFile(value);
    if (text) return await text;
    const details = { toolErrorKind: 'capability_blocked', reason: 'tool_unavailable' };
    throw new RunError('internal', `${part.source}: this host has no files to read`, { details });
  }
  const filter = Object.hasOwn(filters, name) ? filters[name] : undefined;
  if (!filter) throw new RunError('validation', `${part.source}: there is no filter ${name}`);
  return value === undefined ? undefined : filter(value, args[0], part);
}

/** Filters that need nothing of the host. */
export function isPlainFilter(name: string): boolean {
  return name === 'default' || Object.hasOwn(filters, name);
}

const filters: Readonly<Record<string, (value: unknown, arg: Literal | undefined, part: ValuePart) => unknown>> = {
  json: (value, indent = 0) => jsonText(value, null, Number(indent)),
  join: (value, between = ', ', part) => listOf(value, part).map(textOf).join(String(between)),
  trim: (value) => textOf(value).trim(),
  upper: (value) => textOf(value).toUpperCase(),
  lower: (value) => textOf(value).toLowerCase(),
};

function listOf(value: unknown, part: ValuePart): readonly unknown[] {
  if (Array.isArray(value)) return value;
  throw new RunError('validation', `${part.source}: join needs a list`);
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : (jsonText(value) ?? '');
}
