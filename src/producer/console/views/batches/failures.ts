import type { RunView } from '../../../../shared/contract/run.ts';
import { api, request, transferMs, withQuery } from '../../api.ts';

/** Lines that failed for the same reason. */
export interface Failure {
  readonly code: string;
  readonly count: number;
  /** Of the first of them. */
  readonly message: string;
  readonly runIds: readonly string[];
  /** Lines that never became a run. */
  readonly lines: readonly number[];
}

export interface Failures {
  readonly groups: readonly Failure[];
  /** There are more failed lines than were read. */
  readonly partial: boolean;
}

const mostRuns = 500;
const mostBytes = 4 * 1024 * 1024;
const named = 5;

interface Failed {
  readonly code: string;
  readonly message: string;
  readonly runId: string | undefined;
  readonly line: number | undefined;
}

/** The failed lines of a batch by their code, most first: from its file of errors when it has one, else from its failed runs. */
export async function failuresOf(
  batch: { readonly name: string; readonly error_file_id?: string | undefined },
  leave: AbortSignal,
): Promise<Failures> {
  const read = batch.error_file_id ? await readFile(batch.error_file_id, leave) : await readRuns(batch.name, leave);
  return { groups: groupedBy(read.failed), partial: read.partial };
}

export function groupedBy(failed: readonly Failed[]): readonly Failure[] {
  return [...Map.groupBy(failed, ({ code }) => code)]
    .map(([code, all]) => ({
      code,
      count: all.length,
      message: all[0]?.message ?? '',
      runIds: all.flatMap(({ runId }) => (runId === undefined ? [] : [runId])).slice(0, named),
      lines: all
        .flatMap(({ runId, line }) => (runId === undefined && line !== undefined ? [line] : []))
        .slice(0, named),
    }))
    .sort((a, b) => b.count - a.count);
}

async function readRuns(batch: string, leave: AbortSignal): Promise<{ failed: readonly Failed[]; partial: boolean }> {
  const failed: Failed[] = [];
  let cursor: string | undefined;
  do {
    const page = await api<{ runs: readonly RunView[]; cursor?: string }>(
      withQuery('/v1/runs', { batch, status: 'failed', limit: 100, cursor }),
      { signal: leave },
    );
    for (const { runId, error } of page.runs)
      failed.push({ code: error?.code ?? 'unknown', message: error?.message ?? '', runId, line: undefined });
    cursor = page.cursor;
  } while (cursor !== undefined && failed.length < mostRuns);
  return { failed, partial: cursor !== undefined };
}

async function readFile(fileId: string, leave: AbortSignal): Promise<{ failed: readonly Failed[]; partial: boolean }> {
  const response = await request(`/v1/files/${encodeURIComponent(fileId)}/content`, {
    signal: leave,
    headers: { accept: '*/*' },
    deadlineMs: transferMs,
  });
  const { text, whole } = await beginning(response, mostBytes);
  const lines = text.split('\n');
  if (!whole) lines.pop();
  return { failed: lines.flatMap((line) => failedLine(line)), partial: !whole };
}

async function beginning({ body }: Response, most: number): Promise<{ text: string; whole: boolean }> {
  if (!body) return { text: '', whole: true };
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  try {
    while (text.length < most) {
      const { done, value } = await reader.read();
      if (done) return { text, whole: true };
      text += value;
    }
    return { text, whole: false };
  } finally {
    await reader.cancel().catch(() => {});
  }
}

/** A line of a file of errors, of ours or of OpenAI's form. Other lines are none. */
export function failedLine(text: string): readonly Failed[] {
  if (text.trim() === '') return [];
  try {
    const line = JSON.parse(text) as Record<string, unknown>;
    const response = line['response'] as { body?: { error?: unknown } } | null | undefined;
    const error = (line['error'] ?? response?.body?.error) as { code?: unknown; message?: unknown } | null | undefined;
    const { runId, line: number } = line;
    return [
      {
        code: typeof error?.code === 'string' ? error.code : 'unknown',
        message: typeof error?.message === 'string' ? error.message : '',
        runId: typeof runId === 'string' ? runId : undefined,
        line: typeof number === 'number' ? number : undefined,
      },
    ];
  } catch {
    return [];
  }
}
