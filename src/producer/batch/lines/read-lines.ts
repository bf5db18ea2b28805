import { isUtf8 } from 'node:buffer';
import { extname } from 'node:path';
import { defined } from '../../../shared/base/collections.ts';
import { RunError, type ErrorInfo } from '../../../shared/base/errors.ts';
import { sha256 } from '../../../shared/base/ids.ts';
import { canonicalJson, isRecord, jsonOr } from '../../../shared/base/json.ts';
import { columnsOf } from './csv.ts';
import type { BatchLine, LineSource, OverwrittenLine, SourceDraft } from './line.ts';
import { checkFields, lineTemplate, type LineTemplate } from './line-template.ts';
import { csvLine, jsonLine, type BadLine, type Parsed } from './own-line.ts';
import { firstLines, maxLineBytes, rawLines, type RawLine } from './raw-lines.ts';
import { wireLine } from './wire-line.ts';

/**
 * How the lines of a file are to be read. `head` is its beginning, up to 1 MiB: the header of a CSV is there, and the fields that a
 * template needs are looked for. Throws `validation` for what no line of the file could be right with.
 */
export function lineSource(draft: SourceDraft, head: Uint8Array): LineSource {
  const { filename, endpoint } = draft;
  if (head.includes(0))
    throw new RunError('validation', `${filename} is not text in UTF-8: save it as JSONL, or as CSV in UTF-8`);
  const template = templateOf(draft);
  if (extname(filename).toLowerCase() !== '.csv') {
    if (template) checkHead(head, template);
    return { ...draft, columns: undefined };
  }
  if (endpoint !== '/v1/runs')
    throw new RunError('validation', `lines of ${endpoint} are JSONL: a CSV needs the endpoint /v1/runs`);
  const columns = headerOf(head);
  checkColumns(columns, template);
  return { ...draft, columns };
}

function templateOf({ inputTemplate }: Pick<SourceDraft, 'inputTemplate'>): LineTemplate | undefined {
  return inputTemplate === undefined ? undefined : lineTemplate(inputTemplate);
}

function headerOf(head: Uint8Array): readonly string[] {
  for (const { content } of firstLines(head, 'records')) {
    if (content === undefined) throw new RunError('validation', `the header is longer than ${maxLineBytes} bytes`);
    if (!isUtf8(content)) throw new RunError('validation', `the header ${notUtf8}`);
    if (!isBlank(content)) return columnsOf(content.toString());
  }
  throw new RunError('validation', 'the file has no header: its first row names the columns');
}

function checkColumns(columns: readonly string[], template: LineTemplate | undefined): void {
  if (columns.includes('id') && columns.includes('custom_id'))
    throw new RunError('validation', 'the header has both id and custom_id: a line has one name');
  if (template) return checkFields(template, 'column', new Set(columns));
  if (columns.includes('input')) return;
  const [first = ''] = columns;
  const field = /^[A-Za-z_][\w-]*$/.test(first) ? first : `row["${first}"]`;
  const advice = `name one so, or give an inputTemplate, for instance {{ ${field} }}`;
  throw new RunError('validation', `the header has no column input: ${advice}; there are ${columns.join(', ')}`);
}

/** The fields of the first lines stand for those of all. A file without any line that can be read is another problem. */
function checkHead(head: Uint8Array, template: LineTemplate): void {
  const known = new Set<string>();
  for (const { content } of firstLines(head, 'lines')) {
    const value = content && jsonOr(content.toString());
    if (typeof value === 'string') known.add('input');
    if (isRecord(value) && value['erased'] !== true) for (const name of Object.keys(value)) known.add(name);
  }
  if (known.size > 0) checkFields(template, 'field', known);
}

/**
 * Reads the file line by line; a wrong line is yielded with its error and hinders no other. A line that repeats another one word for
 * word is a line of its own. A line whose id an earlier line has is wrong. One that was erased is wrong and keeps the key that it had,
 * and its id where another has it, so that no other line becomes another one.
 */
export async function* readLines(
  bytes: AsyncIterable<Uint8Array>,
  source: LineSource,
  erased: ReadonlyMap<number, OverwrittenLine> = new Map(),
): AsyncGenerator<BatchLine> {
  const parse = parserOf(source);
  const keys = new Keys(source);
  let hasHeader = source.columns === undefined;
  for await (const raw of rawLines(bytes, source.columns ? 'records' : 'lines')) {
    if (raw.content && isBlank(raw.content)) continue;
    if (!hasHeader) {
      hasHeader = true;
      continue;
    }
    // A line of output that was erased had none, and may be one of input now.
    const was = erased.get(raw.offset);
    yield was?.key ? keys.erased(raw, was) : keys.named(raw, await parsed(raw, parse));
  }
}

type Parse = (text: string) => Parsed | Promise<Parsed>;

function parserOf(source: LineSource): Parse {
  const { endpoint, columns, defaults } = source;
  if (endpoint !== '/v1/runs') return (text) => wireLine(text, endpoint, defaults);
  const lines = { defaults, template: templateOf(source) };
  return columns ? (text) => csvLine(text, columns, lines) : (text) => jsonLine(text, lines);
}

async function parsed({ content }: RawLine, parse: Parse): Promise<Parsed> {
  if (content === undefined) return { id: undefined, problem: `is longer than ${maxLineBytes} bytes` };
  if (!isUtf8(content)) return { id: undefined, problem: notUtf8 };
  return await parse(content.toString());
}

const notUtf8 = 'is not in UTF-8: save the file in that encoding';

function isBlank(content: Buffer): boolean {
  return content.every((byte) => byte === 0x20 || byte === 0x09 || byte === 0x0d);
}

/** Gives each line of a file a key of its own, and refuses names that were there before. Keeps digests, not what lines say. */
class Keys {
  readonly #options: string;
  readonly #isWire: boolean;
  readonly #copies = new Map<string, number>();
  readonly #lineWithId = new Map<string, number>();

  constructor({ defaults, endpoint }: LineSource) {
    this.#isWire = endpoint !== '/v1/runs';
    this.#options = digestOf(defaults, 8);
  }

  named({ line, offset, length, content }: RawLine, read: Parsed): BatchLine {
    const { id } = read;
    const head = { line, id, offset, length };
    const first = 'request' in read ? this.#firstWith(id, line) : undefined;
    if ('request' in read && first === undefined) {
      const says = this.#isWire ? ['custom_id', id] : [id, read.request];
      return { ...head, kind: 'request', request: read.request, key: this.#keyOf(says) };
    }
    const bad = 'request' in read ? this.#twice(first) : read;
    return { ...head, kind: 'bad', error: errorOf(bad), key: this.#keyOf(['bad', content?.toString() ?? line]) };
  }

  erased({ line, offset, length }: RawLine, { key, idDigest }: OverwrittenLine): BatchLine {
    const [, digest = ''] = key.split(':');
    this.#copies.set(digest, (this.#copies.get(digest) ?? 0) + 1);
    if (idDigest) this.#lineWithId.set(idDigest, line);
    return { line, id: undefined, offset, length, kind: 'bad', error: errorOf({ problem: 'was erased' }), key };
  }

  /** The line that has this name already; else this line has it from now on. */
  #firstWith(id: string | undefined, line: number): number | undefined {
    if (id === undefined) return undefined;
    const digest = digestOfId(id);
    const first = this.#lineWithId.get(digest);
    if (first === undefined) this.#lineWithId.set(digest, line);
    return first;
  }

  #twice(first: number | undefined): BadLine {
    if (!this.#isWire) return { problem: `has the id of line ${first}: each line needs its own` };
    const problem = `has the custom_id of line ${first}: each line needs its own`;
    return { problem, reason: 'duplicate_custom_id', param: 'custom_id' };
  }

  #keyOf(content: unknown): string {
    const digest = digestOf(content, 20);
    const copy = (this.#copies.get(digest) ?? 0) + 1;
    this.#copies.set(digest, copy);
    return `${this.#options}:${digest}${copy === 1 ? '' : `:${copy}`}`;
  }
}

function errorOf({ problem, reason, param }: BadLine): ErrorInfo {
  const details = param === undefined ? undefined : { param };
  return { code: 'validation', message: `the line ${problem}`, retryable: false, ...defined({ reason, details }) };
}

/** What lines with the same id have in common. */
export function digestOfId(id: string): string {
  return digestOf(id, 20);
}

function digestOf(value: unknown, characters: number): string {
  return sha256(canonicalJson(value)).slice(0, characters);
}
