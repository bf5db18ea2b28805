import { z } from 'zod';
import { RunError } from '../../base/errors.ts';
import { threadEntry, threadManifest, type NumberedEntry, type ThreadEntry, type ThreadManifest } from './thread.ts';

/** The first line of an export: the thread, without what only a provider can read. */
export const exportedThread = threadManifest.omit({ session: true });

/** A line of an export: the thread first, then every entry as it is kept, with its number. */
export type ThreadExportLine =
  | ({ readonly t: 'thread' } & Omit<ThreadManifest, 'session'>)
  | ({ readonly seq: number } & ThreadEntry);

/** A thread as it was exported. */
export interface ExportedThread {
  readonly manifest: ThreadManifest;
  readonly entries: readonly NumberedEntry[];
}

const firstLine = exportedThread.extend({ t: z.literal('thread') });
const numbered = z.object({ seq: z.int().min(1) });

/** Reads an export, as text or as its lines. Throws `validation` with the number of the first line that is none. */
export function readExport(exported: string | Iterable<unknown>): ExportedThread {
  const lines = typeof exported === 'string' ? linesOf(exported) : [...exported];
  const [first, ...rest] = lines;
  const { t: _, ...manifest } = parsed(firstLine, first, 1);
  const entries = rest.map((line, at) => ({
    seq: parsed(numbered, line, at + 2).seq,
    entry: parsed(threadEntry, line, at + 2),
  }));
  return { manifest, entries };
}

function linesOf(text: string): unknown[] {
  return text
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line, at) => {
      try {
        return JSON.parse(line) as unknown;
      } catch (cause) {
        throw notALine(at + 1, cause);
      }
    });
}

function parsed<T>(schema: z.ZodType<T>, line: unknown, number: number): T {
  const read = schema.safeParse(line);
  if (!read.success) throw notALine(number, read.error);
  return read.data;
}

function notALine(number: number, cause: unknown): RunError {
  return new RunError('validation', `line ${number} is not one of an exported thread`, { cause });
}
