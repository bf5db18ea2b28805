import { request, transferMs, withQuery } from '../../api.ts';

/** A line without an answer. */
export interface Failed {
  readonly code: string;
  readonly message: string;
  readonly runId: string | undefined;
  /** In the file, where its result says so. */
  readonly line: number | undefined;
  /** What names it otherwise: its own name, or how its row begins. */
  readonly name: string | undefined;
}

/** Lines that failed with the same code. */
export interface Failure {
  readonly code: string;
  readonly count: number;
  /** The first run that failed so. */
  readonly runId: string | undefined;
  /** Why, the most frequent first; at most {@link mostCauses}. */
  readonly causes: readonly Cause[];
  /** What is not among these causes. */
  readonly further: { readonly causes: number; readonly lines: number };
}

/** Lines with the same code whose messages differ in ids and numbers at most. */
export interface Cause {
  readonly count: number;
  /** Of the first of them. */
  readonly message: string;
  readonly runId: string | undefined;
}

export interface Failures {
  readonly groups: readonly Failure[];
  readonly lines: readonly Failed[];
  /** There are more failed lines than were read. */
  readonly partial: boolean;
}

const mostBytes = 4 * 1024 * 1024;
const nameChars = 160;
export const mostCauses = 5;

interface Asked {
  readonly id: string;
  readonly format: 'jsonl' | 'csv';
}

/** The lines of a batch that have failed by now, in the order in which they did. */
export async function failuresOf({ id, format }: Asked, leave: AbortSignal): Promise<Failures> {
  const path = `/v1/batches/${encodeURIComponent(id)}/results`;
  const response = await request(withQuery(path, { of: 'errors' }), {
    signal: leave,
    headers: { accept: '*/*' },
    deadlineMs: transferMs,
  });
  const { text, whole } = await beginning(response, mostBytes);
  const lines = format === 'csv' ? await failedRows(text) : text.split('\n').flatMap((line) => failedLine(line));
  return { groups: groupedBy(lines), lines, partial: !whole };
}

/** It was no request that could become a run. */
export function isRefused({ code, runId }: Failed): boolean {
  return code === 'validation' && runId === undefined;
}

export function groupedBy(failed: readonly Failed[]): readonly Failure[] {
  return mostFrequent(
    [...Map.groupBy(failed, ({ code }) => code)].map(([code, all]) => {
      const causes = causesOf(all);
      const rest = causes.slice(mostCauses);
      return {
        code,
        count: all.length,
        runId: firstRun(all),
        causes: causes.slice(0, mostCauses),
        further: { causes: rest.length, lines: rest.reduce((sum, { count }) => sum + count, 0) },
      };
    }),
  );
}

function causesOf(failed: readonly Failed[]): readonly Cause[] {
  const groups = Map.groupBy(failed, ({ message }) => withoutDetails(message));
  return mostFrequent(
    [...groups.values()].map((all) => ({ count: all.length, message: all[0]?.message ?? '', runId: firstRun(all) })),
  );
}

/** Times, ids and numbers that stand by themselves. The digits of a name, such as `gpt-4o`, are part of it. */
const details = new RegExp(
  [
    String.raw`\d{4}-\d\d-\d\dT[\d:.]+Z?`,
    String.raw`\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`,
    String.raw`\b[0-9A-HJKMNP-TV-Z]{26}\b`,
    String.raw`\b(?=[a-f]*\d)[0-9a-f]{8,}\b`,
    String.raw`\b[a-z]+_(?=[A-Za-z]*\d)[A-Za-z0-9]{8,}\b`,
    String.raw`(?<![\w-])\d+(?:[.,:]\d+)*`,
  ].join('|'),
  'g',
);

function withoutDetails(message: string): string {
  return message.replaceAll(details, '…');
}

function firstRun(failed: readonly Failed[]): string | undefined {
  return failed.find(({ runId }) => runId !== undefined)?.runId;
}

function mostFrequent<T extends { readonly count: number }>(groups: readonly T[]): readonly T[] {
  return groups.toSorted((a, b) => b.count - a.count);
}

/** At least so many characters of a text, up to the last line of them that is whole. */
export async function beginning({ body }: Response, most: number): Promise<{ text: string; whole: boolean }> {
  if (!body) return { text: '', whole: true };
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  try {
    while (text.length < most) {
      const { done, value } = await reader.read();
      if (done) return { text, whole: true };
      text += value;
    }
    return { text: text.slice(0, text.lastIndexOf('\n') + 1), whole: false };
  } finally {
    // What is left of the body is of no interest, nor whether it could be fetched.
    await reader.cancel().catch(() => {});
  }
}

/** A line of results that says of an error, of ours or of OpenAI's form. Other lines are none. */
export function failedLine(text: string): readonly Failed[] {
  if (text.trim() === '') return [];
  try {
    const said = JSON.parse(text) as Record<string, unknown>;
    const response = said['response'] as { body?: { error?: unknown }; request_id?: unknown } | null | undefined;
    const error = (said['error'] ?? response?.body?.error) as { code?: unknown; message?: unknown } | null | undefined;
    const { runId = response?.request_id, line, custom_id: name, id } = said;
    const wireLine = typeof id === 'string' ? /^batch_req_(\d+)$/.exec(id)?.[1] : undefined;
    return [
      {
        code: textOf(error?.code) ?? 'unknown',
        message: textOf(error?.message) ?? '',
        runId: textOf(runId),
        line: typeof line === 'number' ? line : wireLine === undefined ? undefined : Number(wireLine),
        name: textOf(name),
      },
    ];
  } catch {
    return [];
  }
}

/** Columns that a batch writes behind those of its input. One whose name was taken has `run_` before it. */
const errorColumn = /^(?:run_)*error$/;
const runColumn = /^(?:run_)*run_id$/;
const firstOwnColumn = /^(?:run_)*status$/;

/** The rows of a CSV of results. */
export async function failedRows(text: string): Promise<readonly Failed[]> {
  const { parse } = await import('csv-parse/browser/esm/sync');
  const [header = [], ...rows] = parse(text, { relax_column_count: true, skip_empty_lines: true });
  const last = (form: RegExp) => header.findLastIndex((name) => form.test(name));
  const [errorAt, runAt, ownAt] = [last(errorColumn), last(runColumn), last(firstOwnColumn)];
  const named = ['id', 'custom_id'].map((name) => header.indexOf(name)).find((at) => at >= 0 && at < ownAt);
  return rows.map((row) => {
    const [code = '', ...message] = (row[errorAt] ?? '').split(': ');
    const name = row[named ?? -1] || row.slice(0, ownAt).join(', ').slice(0, nameChars);
    return {
      code: code || 'unknown',
      message: message.join(': '),
      runId: row[runAt] || undefined,
      line: undefined,
      name: name || undefined,
    };
  });
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}
