import { problemsOf } from '../../shared/base/problems.ts';
import { defined } from '../../shared/base/collections.ts';
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { z } from 'zod';
import { RunError } from '../../shared/base/errors.ts';
import { sha256 } from '../../shared/base/ids.ts';
import { jsonOr, jsonText } from '../../shared/base/json.ts';
import { runRequest, type RunRequestInput } from '../../shared/contract/run.ts';

/** What every run of a batch gets unless its line says otherwise. */
export type BatchDefaults = Partial<Pick<RunRequestInput, 'agent' | 'overrides' | 'deadlineMs'>>;

/** A line of the file that is not empty. `id` is the author's own name for it. */
export type BatchLine = { readonly line: number; readonly id: string | undefined } & (
  | { readonly kind: 'request'; readonly request: RunRequestInput }
  | { readonly kind: 'bad'; readonly problem: string }
);

/** What identifies a batch, and how many lines of it are not empty. */
export interface BatchIdentity {
  readonly key: string;
  readonly lines: number;
}

/** A line is one input (256 KB) in JSON, which may double it, and its options. */
const maxLineBytes = 1024 * 1024;

const id = z.string().min(1).max(512);

const fields = runRequest.omit({ executionId: true, batch: true, agent: true, input: true }).extend({
  agent: runRequest.shape.agent.optional(),
  id: id.optional(),
  custom_id: id.optional(),
});

const plainLine = fields.extend({ input: z.string() });

/** A line of an OpenAI batch file whose request is one user message. */
const openAiLine = z.object({
  custom_id: id,
  body: z.union([
    z.object({ input: z.string() }),
    z.object({ messages: z.tuple([z.object({ role: z.literal('user'), content: z.string() })]) }),
  ]),
});

/**
 * Reads a file once for its identity: the same content with the same defaults is the same batch, whatever the file is
 * called. Throws `validation` when it cannot be read.
 */
export async function identifyBatch(path: string, defaults: BatchDefaults): Promise<BatchIdentity> {
  const digest = createHash('sha256');
  let lines = 0;
  for await (const line of linesOf(path, (chunk) => digest.update(chunk))) if (!isEmpty(line)) lines += 1;
  return { key: sha256(digest.digest('hex') + jsonText(defaults)).slice(0, 20), lines };
}

/** Reads the file line by line; a wrong line is yielded with its problem and hinders no other. */
export async function* readBatch(path: string, defaults: BatchDefaults): AsyncGenerator<BatchLine> {
  for await (const line of linesOf(path, () => {})) if (!isEmpty(line)) yield parseLine(line, defaults);
}

/** The execution id under which a line is enqueued: it is what keeps a line from running twice. */
export function executionIdFor(key: string, line: number): string {
  return `batch:${key}:${line}`;
}

async function* linesOf(path: string, see: (chunk: Buffer) => void): AsyncGenerator<TextLine> {
  const chunks = async function* () {
    for await (const chunk of createReadStream(path) as AsyncIterable<Buffer>) {
      see(chunk);
      yield chunk;
    }
  };
  try {
    yield* textLines(chunks(), maxLineBytes);
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).syscall === undefined) throw cause;
    throw new RunError('validation', `${path} cannot be read: ${(cause as Error).message}`, { cause });
  }
}

function isEmpty(line: TextLine): boolean {
  return 'text' in line && line.text.trim() === '';
}

function parseLine(line: TextLine, defaults: BatchDefaults): BatchLine {
  if (!('text' in line)) return bad(line.number, `is longer than ${maxLineBytes} bytes`);
  let value = jsonOr(line.text);
  if (value === undefined) return bad(line.number, 'is not JSON');
  if (typeof value === 'string') value = { input: value };
  const openAi = openAiLine.safeParse(value);
  if (openAi.success) {
    const { custom_id, body } = openAi.data;
    value = { id: custom_id, input: 'input' in body ? body.input : body.messages[0].content };
  }
  const parsed = plainLine.safeParse(value);
  if (!parsed.success) return bad(line.number, problemsOf(parsed.error, 'line').join('; '), idOf(value));
  const { id: ownId, custom_id, ...fieldsOfRun } = parsed.data;
  const request = { ...defaults, ...defined(fieldsOfRun) };
  const name = ownId ?? custom_id;
  if (request.agent === undefined) return bad(line.number, 'names no agent, and no agent was given for all', name);
  return { line: line.number, id: name, kind: 'request', request: request as RunRequestInput };
}

function bad(line: number, problem: string, name?: string): BatchLine {
  return { line, id: name, kind: 'bad', problem };
}

/** The name of a line that is wrong otherwise. */
function idOf(value: unknown): string | undefined {
  const found = z.object({ id: id.optional(), custom_id: id.optional() }).safeParse(value);
  return found.success ? (found.data.id ?? found.data.custom_id) : undefined;
}

/** One line of a file, numbered from 1, without its end. */
export type TextLine =
  | { readonly number: number; readonly text: string }
  | { readonly number: number; readonly tooLong: true };

const newline = 0x0a;

/**
 * Splits bytes into lines. Keeps at most one line of `maxBytes`: of a longer one only the number. The last line
 * need not end with a newline; an empty rest after the last newline is no line.
 */
export async function* textLines(chunks: AsyncIterable<Buffer>, maxBytes: number): AsyncGenerator<TextLine> {
  let parts: Buffer[] = [];
  let bytes = 0;
  let number = 1;
  const add = (part: Buffer) => {
    bytes += part.length;
    if (bytes <= maxBytes) parts.push(part);
    else parts = [];
  };
  const take = (): TextLine => {
    const line = bytes > maxBytes ? ({ number, tooLong: true } as const) : { number, text: textOf(parts, number) };
    parts = [];
    bytes = 0;
    number += 1;
    return line;
  };
  for await (const chunk of chunks) {
    let start = 0;
    for (let end = chunk.indexOf(newline); end >= 0; end = chunk.indexOf(newline, start)) {
      add(chunk.subarray(start, end));
      yield take();
      start = end + 1;
    }
    if (start < chunk.length) add(chunk.subarray(start));
  }
  if (bytes > 0) yield take();
}

function textOf(parts: readonly Buffer[], number: number): string {
  const text = Buffer.concat(parts).toString('utf8').replace(/\r$/, '');
  return number === 1 ? text.replace(/^\uFEFF/, '') : text;
}
