import type { BatchEndpoint } from '../../../../shared/contract/batch.ts';

/** So much of a file is looked at before it is uploaded. */
export const previewBytes = 64 * 1024;
const shownRows = 5;

/** What the beginning of a file looks like. */
export interface Preview {
  readonly format: 'JSONL' | 'CSV';
  /** What its lines are requests of. */
  readonly endpoint: BatchEndpoint;
  readonly columns: readonly string[];
  /** The first lines, each by its columns; a line that is a text has only `input`. */
  readonly rows: readonly Readonly<Record<string, string>>[];
  /** How many lines there may be: exact when the whole file was seen. */
  readonly lines: { readonly count: number; readonly exact: boolean };
  /** What would hinder the batch. */
  readonly problems: readonly string[];
}

/** Reads the beginning of a file as a batch would. The producer has the last word. */
export async function previewOf(name: string, text: string, size: number): Promise<Preview> {
  const isWhole = new TextEncoder().encode(text).length >= size;
  // The last line of a piece may be cut in the middle.
  const known = isWhole ? text : text.slice(0, text.lastIndexOf('\n') + 1);
  const read = name.toLowerCase().endsWith('.csv') ? await csvOf(known) : jsonLinesOf(known);
  const problems = known.trim() === '' ? ['The file is empty, or its first line is longer than 64 KB.'] : read.problems;
  const perLine = known.length / Math.max(1, read.count);
  const lines = isWhole
    ? { count: read.count, exact: true }
    : { count: Math.round(size / Math.max(1, perLine)), exact: false };
  return { format: read.format, endpoint: read.endpoint, columns: read.columns, rows: read.rows, lines, problems };
}

type Read = Omit<Preview, 'lines'> & { readonly count: number };

function jsonLinesOf(text: string): Read {
  const lines = text
    .split('\n')
    .map((line, at) => ({ line: line.trim(), number: at + 1 }))
    .filter(({ line }) => line !== '');
  const problems: string[] = [];
  const values = lines.map(({ line, number }) => {
    try {
      return JSON.parse(line) as unknown;
    } catch {
      problems.push(`Line ${number} is not JSON: ${line.slice(0, 60)}`);
      return undefined;
    }
  });
  const first = values.find((value) => isRecord(value));
  const rows = values.filter((value) => value !== undefined).map(rowOf);
  return {
    format: 'JSONL',
    endpoint: endpointOf(first),
    columns: columnsOf(rows.slice(0, shownRows)),
    rows: rows.slice(0, shownRows),
    problems: problems.slice(0, shownRows),
    count: lines.length,
  };
}

/** Lines of OpenAI's API name their route. */
function endpointOf(line: Readonly<Record<string, unknown>> | undefined): BatchEndpoint {
  const url = line?.['url'];
  if (url === '/v1/responses' || url === '/v1/chat/completions') return url;
  return '/v1/runs';
}

async function csvOf(text: string): Promise<Read> {
  const { parse } = await import('csv-parse/browser/esm/sync');
  const none = { format: 'CSV', endpoint: '/v1/runs', columns: [], rows: [], count: 0 } as const;
  try {
    const records = parse(text, { bom: true, relax_column_count: true, skip_empty_lines: true });
    const [header = [], ...rest] = records;
    const columns = header.map((name) => name.trim());
    const twice = columns.find((name, at) => columns.indexOf(name) < at);
    const problems = [
      ...(columns.includes('') ? ['A column of the header has no name.'] : []),
      ...(twice ? [`The header has the column ${twice} twice.`] : []),
      ...(columns.length === 1 && /[;\t]/.test(columns[0] ?? '')
        ? ['The header is one column: put commas between columns.']
        : []),
    ];
    const rows = rest
      .slice(0, shownRows)
      .map((fields) => Object.fromEntries(columns.map((name, at) => [name, fields[at] ?? ''])));
    return { ...none, columns, rows, count: rest.length, problems };
  } catch (error) {
    return { ...none, problems: [`This is no CSV: ${error instanceof Error ? error.message : String(error)}`] };
  }
}

function rowOf(value: unknown): Readonly<Record<string, string>> {
  if (!isRecord(value)) return { input: shown(value) };
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, shown(each)]));
}

function columnsOf(rows: readonly Readonly<Record<string, string>>[]): readonly string[] {
  return [...new Set(rows.flatMap((row) => Object.keys(row)))];
}

function shown(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** What to do when no line has an input of its own; undefined: they have. */
export function needsTemplate({ endpoint, columns }: Preview): boolean {
  return endpoint === '/v1/runs' && !columns.includes('input') && !columns.includes('body');
}
