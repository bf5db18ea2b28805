import { z } from 'zod';
import { defined } from '../../../shared/base/collections.ts';
import { asRunError } from '../../../shared/base/errors.ts';
import { depthOver, isRecord, jsonOr, maxLevels } from '../../../shared/base/json.ts';
import { problemsOf } from '../../../shared/base/problems.ts';
import { runRequestBody, type RunRequestInput } from '../../../shared/contract/run.ts';
import { fieldsOf } from './csv.ts';
import type { LineDefaults } from './line.ts';
import type { LineTemplate } from './line-template.ts';

/** What is wrong with a line, as the end of a sentence; of a line of OpenAI's with their code for it, and the field. */
export interface BadLine {
  readonly problem: string;
  readonly reason?: string;
  readonly param?: string;
}

/** What a line asks for, under the author's own name for it; or what is wrong with it. */
export type Parsed = { readonly id: string | undefined } & ({ readonly request: RunRequestInput } | BadLine);

const id = z.string().min(1).max(512);
const names = { id: id.optional(), custom_id: id.optional() };

const plainLine = runRequestBody
  .omit({ executionId: true, batch: true, agent: true })
  .extend({ agent: runRequestBody.shape.agent.optional(), ...names });

/** What counts as a field of the run where a template makes the input: all others are for the template. */
const templateLine = runRequestBody
  .pick({ metadata: true })
  .extend({ agent: runRequestBody.shape.agent.optional(), ...names });

/** A line of an OpenAI batch file whose request is one user message. */
const openAiLine = z.object({
  custom_id: id,
  body: z.union([
    z.object({ input: z.string() }),
    z.object({ messages: z.tuple([z.object({ role: z.literal('user'), content: z.string() })]) }),
  ]),
});

const example = 'for instance {"id": "a", "input": "Where is order 7?"}';

/** What lines of our own have in common. */
export interface OwnLines {
  readonly defaults: LineDefaults;
  readonly template: LineTemplate | undefined;
}

/** A line of JSONL: a text, or an object. */
export async function jsonLine(text: string, lines: OwnLines): Promise<Parsed> {
  const value = jsonOr(text);
  if (value === undefined) return { id: undefined, problem: `is not JSON; write ${example}` };
  const fields = typeof value === 'string' ? { input: value } : value;
  if (!isRecord(fields)) return { id: undefined, problem: `must be a JSON string or object; write ${example}` };
  if (depthOver(text, maxLevels)) return { id: idOf(fields), problem: `is nested deeper than ${maxLevels} levels` };
  if (lines.template) return await rendered(fields, fields, lines.template, lines.defaults);
  const openAi = openAiLine.safeParse(fields);
  if (!openAi.success) return plain(fields, lines.defaults);
  const { custom_id, body } = openAi.data;
  const input = 'input' in body ? body.input : body.messages[0].content;
  return plain({ id: custom_id, input }, lines.defaults);
}

/** A row of a CSV. Its columns `id` or `custom_id`, `agent` and `metadata.NAME` are about the run; the others are its data. */
export async function csvLine(text: string, columns: readonly string[], lines: OwnLines): Promise<Parsed> {
  const read = fieldsOf(text);
  if ('problem' in read) return { id: undefined, problem: read.problem };
  const { fields } = read;
  const row = Object.fromEntries(columns.map((column, index) => [column, fields[index] ?? '']));
  const about = aboutRun(row);
  if (fields.length !== columns.length)
    return {
      id: idOf(about),
      problem: `has ${fields.length} field${fields.length === 1 ? '' : 's'}, and the header ${columns.length}`,
    };
  if (lines.template) return await rendered(about, row, lines.template, lines.defaults);
  return plain({ ...about, input: row['input'] }, lines.defaults);
}

const metadataPrefix = 'metadata.';

/** Empty fields count as absent. */
function aboutRun(row: Readonly<Record<string, string>>): Record<string, unknown> {
  const filled = Object.entries(row).filter(([, value]) => value !== '');
  const metadata = filled.filter(([name]) => name.startsWith(metadataPrefix) && name !== metadataPrefix);
  const fields = filled.filter(([name]) => ['id', 'custom_id', 'agent'].includes(name));
  if (metadata.length > 0) {
    const named = metadata.map(([name, value]): [string, unknown] => [name.slice(metadataPrefix.length), value]);
    return { ...Object.fromEntries(fields), metadata: Object.fromEntries(named) };
  }
  return Object.fromEntries(fields);
}

function plain(fields: Record<string, unknown>, defaults: LineDefaults): Parsed {
  const parsed = plainLine.safeParse(fields);
  if (!parsed.success) return { id: idOf(fields), problem: problemOf(fields, parsed.error) };
  return request(parsed.data, defaults);
}

async function rendered(
  about: Record<string, unknown>,
  data: Readonly<Record<string, unknown>>,
  template: LineTemplate,
  defaults: LineDefaults,
): Promise<Parsed> {
  const { id: named, custom_id, agent, metadata } = about;
  const parsed = templateLine.safeParse(defined({ id: named, custom_id, agent, metadata }));
  if (!parsed.success) return { id: idOf(about), problem: problemsOf(parsed.error, 'line').join('; ') };
  try {
    return plain({ ...parsed.data, input: await template.render(data) }, defaults);
  } catch (thrown) {
    const error = asRunError(thrown);
    if (error.code !== 'validation') throw thrown;
    return { id: idOf(about), problem: `does not fit inputTemplate: ${error.message}` };
  }
}

function request(fields: z.output<typeof plainLine>, defaults: LineDefaults): Parsed {
  const { id: ownId, custom_id, ...fieldsOfRun } = fields;
  const asked = { ...defaults, ...defined(fieldsOfRun) };
  const name = ownId ?? custom_id;
  if (asked.agent === undefined)
    return { id: name, problem: 'needs `agent`: it names none, and the batch has none for all' };
  return { id: name, request: asked as RunRequestInput };
}

function problemOf(value: Record<string, unknown>, error: z.ZodError): string {
  if ('body' in value)
    return 'needs a `body` with `input`, or with `messages` of one user message: an agent has its own instructions';
  const needsInput = value['input'] === undefined ? ['needs `input`, the text for the agent'] : [];
  const others = { issues: error.issues.filter(({ path }) => needsInput.length === 0 || path[0] !== 'input') };
  return [...needsInput, ...problemsOf(others, 'line', undefined, plainLine)].join('; ');
}

/** The name of a line that is wrong otherwise. */
function idOf(value: unknown): string | undefined {
  const found = z.object(names).safeParse(value);
  return found.success ? (found.data.id ?? found.data.custom_id) : undefined;
}
