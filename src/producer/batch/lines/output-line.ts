import { assertNever, type ErrorInfo } from '../../../shared/base/errors.ts';
import { isRecord, jsonOr, jsonText } from '../../../shared/base/json.ts';
import { microcentsPerUsd } from '../../../shared/contract/money.ts';
import type { RunStatus } from '../../../shared/contract/run.ts';
import { fieldsOf, rowText } from './csv.ts';
import type { LineHead, LineOutcome, LineSource } from './line.ts';
import type { Division } from './raw-lines.ts';
import { wireOutputLine } from './wire-output.ts';

/** What comes before the first line of an output file, its end of line included. Undefined: nothing does. */
export function outputHeader(source: LineSource): string | undefined {
  const { columns } = source;
  if (!columns) return undefined;
  const taken = new Set(columns);
  const own = ['status', ...source.answerFields, 'text', 'error', 'cost_usd', 'run_id'];
  const names = own.map((name) => {
    let free = name;
    while (taken.has(free)) free = `run_${free}`;
    taken.add(free);
    return free;
  });
  return rowText([...columns, ...names]);
}

/** Does {@link outputLine} of this source look at what the line says? */
export function needsOriginal({ endpoint, columns }: LineSource): boolean {
  return endpoint !== '/v1/runs' || columns !== undefined;
}

/**
 * One line of the output, or of the error file, with its end of line: of a batch of OpenAI's lines as there, else one of ours, in JSONL
 * or CSV as the input is. `original` is what the line says in the file, and '' where {@link needsOriginal} is false.
 */
export function outputLine(head: LineHead, outcome: LineOutcome, source: LineSource, original: string): string {
  const { endpoint, columns } = source;
  if (endpoint !== '/v1/runs') return wireOutputLine(head, outcome, endpoint, original);
  if (columns) return rowText([...inputFields(original, columns), ...answerFields(resultOf(outcome), source)]);
  const { line, id } = head;
  // Readers of output files of OpenAI look for `custom_id`.
  return `${jsonText({ line, id, custom_id: id, ...resultOf(outcome) })}\n`;
}

/** The run that a line of output or of errors is about, in whatever form. Undefined: none, or it is no such line. */
export function runIdIn(text: string, division: Division): string | undefined {
  // The last column, which needs no quotes: a row may be too long to be read as one.
  if (division === 'records') return /,([0-9A-HJKMNP-TV-Z]{26})$/.exec(text)?.[1];
  const line = jsonOr(text);
  if (!isRecord(line)) return undefined;
  const { runId, response } = line;
  const id = isRecord(response) ? response['request_id'] : runId;
  return typeof id === 'string' ? id : undefined;
}

/** What an output says of a line, in whatever form. */
interface Result {
  readonly executionId: string;
  readonly runId: string | undefined;
  readonly status: RunStatus;
  readonly text: string;
  readonly output?: unknown;
  readonly error: ErrorInfo | undefined;
  readonly costMicrocents: number;
}

function resultOf(outcome: LineOutcome) {
  switch (outcome.kind) {
    case 'ended': {
      const { runId, status, text, result, error, unfinished, costMicrocents, usage } = outcome.outcome;
      const { output, incomplete } = result ?? {};
      const { executionId } = outcome;
      return { executionId, runId, status, text, output, error, unfinished, incomplete, costMicrocents, usage };
    }
    case 'refused': {
      const { executionId, runId, error, costMicrocents } = outcome;
      const status = error.code === 'cancelled' ? 'cancelled' : 'failed';
      return { executionId, runId, status, text: '', error, costMicrocents } satisfies Result;
    }
    default:
      return assertNever(outcome);
  }
}

/** What the row said, as far as it could be read, for each column. */
function inputFields(original: string, columns: readonly string[]): readonly string[] {
  const read = fieldsOf(original);
  const fields = 'fields' in read ? read.fields : [];
  return columns.map((_, index) => fields[index] ?? '');
}

function answerFields(result: Result, { answerFields: names }: LineSource): readonly string[] {
  const { status, text, output, error, costMicrocents, runId } = result;
  const structured = isRecord(output) ? output : {};
  const isWhole =
    names.length > 0 &&
    Object.keys(structured).length > 0 &&
    Object.keys(structured).every((name) => names.includes(name));
  const cost = (costMicrocents / microcentsPerUsd).toFixed(8).replace(/\.?0+$/, '');
  return [
    status,
    ...names.map((name) => (Object.hasOwn(structured, name) ? cell(structured[name]) : '')),
    isWhole ? '' : text,
    error ? `${error.code}: ${error.message}` : '',
    cost,
    runId ?? '',
  ];
}

function cell(value: unknown): string {
  if (value === undefined || value === null) return '';
  return typeof value === 'string' ? value : jsonText(value);
}
