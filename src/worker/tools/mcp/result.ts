import { isRecord, jsonOr, jsonText } from '../../../shared/base/json.ts';
import { isDeepStrictEqual } from 'node:util';
import { clip } from '../../../shared/base/text.ts';
import { ToolOutput } from '../tool.ts';

/** A text that a result names instead of holding it. */
export interface NamedResource {
  readonly server: string;
  /** What `read_result` takes: the URI, as the server wrote it. */
  readonly handle: string;
  readonly name?: string | undefined;
  readonly mimeType?: string | undefined;
  readonly bytes?: number | undefined;
}

export interface McpResultOptions {
  readonly server: string;
  /** The server can be asked for the contents of its resources. */
  readonly readsResources: boolean;
  /** Makes a handle readable. Answers false for one that cannot be read. */
  name(handle: string): boolean;
}

const maxParts = 1_000;
const maxTextChars = 8 * 1024 * 1024;
const maxNoteChars = 200;
const maxRefusalChars = 2_000;
const [noteStart, noteEnd] = ['[mcp-resource ', '; read_result reads it by its handle]'];

/** The result of a call as the model will see it, bounded before anything is put together. Never throws. */
export function outputOf(result: Readonly<Record<string, unknown>>, options: McpResultOptions): ToolOutput {
  const { content, structuredContent, isError } = result;
  const named: string[] = [];
  const parts = (Array.isArray(content) ? content.slice(0, maxParts) : []).map((part) => textOf(part, options, named));
  const texts = parts.filter((text) => text !== '');
  if (Array.isArray(content) && content.length > maxParts)
    texts.push(`[${content.length - maxParts} more parts were left out]`);
  const failed = isError === true;
  const handle = named.length === 1 && texts.length === 1 ? named[0] : undefined;
  const about = { isError: failed, handle };
  if (structuredContent === undefined)
    return new ToolOutput(joined(texts) || (failed ? 'it reported an error' : ''), about);
  // Servers repeat the data as text for clients that do not know it, or the text as data for those that know nothing else.
  const others = texts.filter((text) => !isDeepStrictEqual(jsonOr(text), structuredContent));
  if (isOnlyText(structuredContent, texts)) return new ToolOutput(joined(texts), about);
  if (typeof structuredContent === 'string')
    return new ToolOutput(joined([...others, plain(structuredContent)]), about);
  if (others.length === 0) return new ToolOutput(failed ? jsonText(structuredContent) : structuredContent, about);
  return new ToolOutput(joined([...others, jsonText(structuredContent)]), about);
}

/** The result of a call that the server refused in these words. */
export function refusalText(message: string): string {
  return `the server refused the call: ${plain(message).slice(0, maxRefusalChars)}`;
}

/** What the results of an earlier worker, as they stand in the journal, have named. */
export function namedIn(results: readonly string[]): NamedResource[] {
  return results.flatMap((text) =>
    text.split('\n').flatMap((line): NamedResource[] => {
      if (!line.startsWith(noteStart) || !line.endsWith(noteEnd)) return [];
      const note = jsonOr(line.slice(noteStart.length, -noteEnd.length));
      const { server, handle } = isRecord(note) ? note : {};
      return typeof server === 'string' && typeof handle === 'string' ? [{ server, handle }] : [];
    }),
  );
}

function textOf(part: unknown, options: McpResultOptions, named: string[]): string {
  if (!isRecord(part)) return '';
  const { type, text, data, mimeType, resource } = part;
  switch (type) {
    case 'text':
      return typeof text === 'string' ? plain(text) : '';
    case 'image':
    case 'audio':
      return `[${type} of type ${shown(mimeType)}, ${bytesOf(data)} bytes, which are not shown]`;
    case 'resource_link':
      return noteOf(part, options, named);
    case 'resource':
      return isRecord(resource) ? embedded(resource, options, named) : '';
    default:
      return `[a part of type ${shown(type)}, which is not shown]`;
  }
}

/** Its body is not shown where it can be had when it is wanted. */
function embedded(resource: Fields, options: McpResultOptions, named: string[]): string {
  const { text, blob, mimeType } = resource;
  if (options.readsResources) {
    const bytes = typeof text === 'string' ? Buffer.byteLength(text) : bytesOf(blob);
    return noteOf({ ...resource, size: bytes }, options, named);
  }
  if (typeof text === 'string') return plain(text);
  return `[a resource of type ${shown(mimeType)}, ${bytesOf(blob)} bytes, which are not shown]`;
}

/** One line of a fixed form, so that another worker finds the handle in the journal again. */
function noteOf({ uri, name, mimeType, size }: Fields, options: McpResultOptions, named: string[]): string {
  if (typeof uri !== 'string' || !options.readsResources || !options.name(uri))
    return `[a resource ${shown(name ?? uri)}, which cannot be read]`;
  named.push(uri);
  const note: NamedResource = {
    server: options.server,
    handle: uri,
    name: typeof name === 'string' ? clip(name, maxNoteChars) : undefined,
    mimeType: typeof mimeType === 'string' ? clip(mimeType, maxNoteChars) : undefined,
    bytes: typeof size === 'number' ? size : undefined,
  };
  return noteStart + jsonText(note) + noteEnd;
}

/** A text of the server. It must not pass for a note that names a resource. */
function plain(text: string): string {
  return clip(text, maxTextChars).replaceAll(noteStart, '[mcp resource ');
}

function joined(texts: readonly string[]): string {
  const within: string[] = [];
  let chars = 0;
  for (const text of texts) {
    chars += text.length + 1;
    if (chars > maxTextChars) {
      within.push('[the rest was left out]');
      break;
    }
    within.push(text);
  }
  return within.join('\n');
}

function isOnlyText(data: unknown, texts: readonly string[]): boolean {
  const values = isRecord(data) ? Object.values(data) : [];
  return values.length === 1 && values[0] === texts.join('\n');
}

function bytesOf(base64: unknown): number {
  return typeof base64 === 'string' ? Buffer.byteLength(base64, 'base64') : 0;
}

function shown(value: unknown): string {
  return typeof value === 'string' && value !== ''
    ? clip(plain(value).replaceAll(/\s+/g, ' '), maxNoteChars)
    : 'unknown';
}

type Fields = Readonly<Record<string, unknown>>;
