import { problemsOf } from '../../shared/base/problems.ts';
import { defined } from '../../shared/base/collections.ts';
import { createReadStream } from 'node:fs';
import { basename, extname } from 'node:path';
import { z } from 'zod';
import { RunError } from '../../shared/base/errors.ts';
import { sha256 } from '../../shared/base/ids.ts';
import { canonicalJson, isRecord, jsonOr } from '../../shared/base/json.ts';
import { runInput, runRequestBody, type RunRequestInput } from '../../shared/contract/run.ts';
import { textLines, type TextLine } from './text-lines.ts';

/** What every run of a batch gets unless its line says otherwise. */
export type BatchDefaults = Partial<Pick<RunRequestInput, 'agent' | 'overrides' | 'deadlineMs'>>;

/** Where the lines of a batch come from, and what they have in common. */
export interface BatchSource {
  /** The JSONL file. */
  readonly file: string;
  /** The batch's name: runs have it as their `batch`, and it is part of every execution id. */
  readonly name: string;
  readonly defaults: BatchDefaults;
}

/**
 * A line of the file that is not empty. `id` is the author's own name for it. `executionId` follows from the batch's name,
 * the defaults and what the line says, not from its number: the same line has the same one wherever it stands.
 */
export type BatchLine = { readonly line: number; readonly id: string | undefined; readonly executionId: string } & (
  | { readonly kind: 'request'; readonly request: RunRequestInput }
  | { readonly kind: 'bad'; readonly problem: string }
);

/** A line is one input (256 KB) in JSON, which may double it, and its options. */
const maxLineBytes = 1024 * 1024;

const id = z.string().min(1).max(512);

const fields = runRequestBody.omit({ executionId: true, batch: true, agent: true, input: true }).extend({
  agent: runRequestBody.shape.agent.optional(),
  id: id.optional(),
  custom_id: id.optional(),
});

const plainLine = fields.extend({ input: runInput });

/** A line of an OpenAI batch file whose request is one user message. */
const openAiLine = z.object({
  custom_id: id,
  body: z.union([
    z.object({ input: z.string() }),
    z.object({ messages: z.tuple([z.object({ role: z.literal('user'), content: z.string() })]) }),
  ]),
});

const namePattern = /^[A-Za-z0-9._-]{1,80}$/;

/** The name of a batch that was given none: that of its file, without folder and extension. */
export function batchNameOf(file: string): string {
  return (
    basename(file, extname(file))
      .replaceAll(/[^A-Za-z0-9._-]+/g, '-')
      .slice(0, 80) || 'batch'
  );
}

/** Throws `validation` for a name that cannot be part of an execution id. */
export function checkBatchName(name: string): void {
  if (namePattern.test(name)) return;
  throw new RunError('validation', 'the name of a batch must be 1 to 80 characters of A-Z a-z 0-9 . _ -');
}

/** How the execution ids of a batch begin; `options` differs with the defaults. */
export function executionIdParts({ name, defaults }: Pick<BatchSource, 'name' | 'defaults'>) {
  return { batch: `batch:${name}:`, options: `batch:${name}:${digestOf(defaults, 8)}:` };
}

/**
 * Reads the file line by line; a wrong line is yielded with its problem and hinders no other. A line that repeats another one
 * word for word is a line of its own. A line whose id an earlier line has is wrong. Throws `validation` when the file
 * cannot be read.
 */
export async function* readBatch(source: BatchSource): AsyncGenerator<BatchLine> {
  const { options } = executionIdParts(source);
  const copies = new Map<string, number>();
  const lineWithId = new Map<string, number>();
  const executionIdOf = (content: unknown) => {
    const key = digestOf(content, 20);
    const copy = (copies.get(key) ?? 0) + 1;
    copies.set(key, copy);
    return `${options}${key}${copy === 1 ? '' : `:${copy}`}`;
  };
  for await (const text of linesOf(source.file)) {
    if (isEmpty(text)) continue;
    const line = text.number;
    const parsed = withUniqueId(parseLine(text, source.defaults), line, lineWithId);
    const { id: name } = parsed;
    if ('request' in parsed)
      yield { line, ...parsed, kind: 'request', executionId: executionIdOf([name, parsed.request]) };
    else yield { line, ...parsed, kind: 'bad', executionId: executionIdOf(['bad', 'text' in text ? text.text : line]) };
  }
}

export type Parsed = { readonly id: string | undefined } & (
  | { readonly request: RunRequestInput }
  | { readonly problem: string }
);

function withUniqueId(parsed: Parsed, line: number, lineWithId: Map<string, number>): Parsed {
  if (parsed.id === undefined || 'problem' in parsed) return parsed;
  const first = lineWithId.get(parsed.id);
  if (first !== undefined) return { id: parsed.id, problem: `has the id of line ${first}: each line needs its own` };
  lineWithId.set(parsed.id, line);
  return parsed;
}

function digestOf(value: unknown, characters: number): string {
  return sha256(canonicalJson(value)).slice(0, characters);
}

async function* linesOf(path: string): AsyncGenerator<TextLine> {
  try {
    yield* textLines(createReadStream(path) as AsyncIterable<Buffer>, maxLineBytes);
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).syscall === undefined) throw cause;
    throw new RunError('validation', `${path} cannot be read: ${(cause as Error).message}`, { cause });
  }
}

function isEmpty(line: TextLine): boolean {
  return 'text' in line && line.text.trim() === '';
}

const example = 'for instance {"id": "a", "input": "Where is order 7?"}';

export function parseLine(line: TextLine, defaults: BatchDefaults): Parsed {
  if (!('text' in line)) return { id: undefined, problem: `is longer than ${maxLineBytes} bytes` };
  let value = jsonOr(line.text);
  if (value === undefined) return { id: undefined, problem: `is not JSON; write ${example}` };
  if (typeof value === 'string') value = { input: value };
  const openAi = openAiLine.safeParse(value);
  if (openAi.success) {
    const { custom_id, body } = openAi.data;
    value = { id: custom_id, input: 'input' in body ? body.input : body.messages[0].content };
  }
  const parsed = plainLine.safeParse(value);
  if (!parsed.success) return { id: idOf(value), problem: problemOf(value, parsed.error) };
  const { id: ownId, custom_id, ...fieldsOfRun } = parsed.data;
  const request = { ...defaults, ...defined(fieldsOfRun) };
  const name = ownId ?? custom_id;
  if (request.agent === undefined)
    return { id: name, problem: 'needs `agent`: it names none, and --agent gives none for all' };
  return { id: name, request: request as RunRequestInput };
}

function problemOf(value: unknown, error: z.ZodError): string {
  if (!isRecord(value)) return `must be a JSON string or object; write ${example}`;
  if ('body' in value)
    return 'needs a `body` with `input`, or with `messages` of one user message: an agent has its own instructions';
  const needsInput = value['input'] === undefined ? ['needs `input`, the text for the agent'] : [];
  const others = { issues: error.issues.filter(({ path }) => needsInput.length === 0 || path[0] !== 'input') };
  return [...needsInput, ...problemsOf(others, 'line', undefined, plainLine)].join('; ');
}

/** The name of a line that is wrong otherwise. */
function idOf(value: unknown): string | undefined {
  const found = z.object({ id: id.optional(), custom_id: id.optional() }).safeParse(value);
  return found.success ? (found.data.id ?? found.data.custom_id) : undefined;
}
