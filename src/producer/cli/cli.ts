import { setTimeout as delay } from 'node:timers/promises';
import { defined } from '../../shared/base/collections.ts';
import type { Command } from 'commander';
import type { ReadStream, WriteStream } from 'node:tty';
import { asRunError } from '../../shared/base/errors.ts';
import { userInfo } from 'node:os';

/** What a command sees of the process that it runs in. */
export interface Cli {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  /** Whose data the command is about. Absent: `default`. */
  readonly tenant?: string | undefined;
  /** Folder of this installation: the checkout, or the package. */
  readonly root: string;
  readonly stdin: ReadStream;
  /** Data. */
  readonly stdout: WriteStream;
  /** All texts for a person beside the data. */
  readonly stderr: WriteStream;
  /** Aborts on the first Ctrl-C (or SIGTERM); the second ends the process. */
  readonly interrupted: AbortSignal;
}

/** Items that one call of the client reads. */
const maxPage = 100;

export const exitCodes = { ok: 0, failed: 1, usage: 2, unreachable: 3, interrupted: 130 } as const;
export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes];

/** A command's work: what it answers is the exit code of the process. */
export type Work<Args extends readonly unknown[]> = (cli: Cli, ...args: Args) => Promise<ExitCode>;

/** Adds one command to the program. `act` turns its work into commander's action. */
export type AddCommand = (
  program: Command,
  act: <Args extends unknown[]>(work: Work<Args>) => (...args: Args) => Promise<void>,
) => void;

/** The exit code for something that was thrown. */
export function exitCodeFor(thrown: unknown): ExitCode {
  const { code } = asRunError(thrown);
  if (code === 'queue_unavailable') return exitCodes.unreachable;
  return usageErrors.has(code) ? exitCodes.usage : exitCodes.failed;
}

const usageErrors: ReadonlySet<string> = new Set([
  'validation',
  'invalid_id',
  'invalid_json',
  'too_deep',
  'payload_too_large',
  'secret_in_payload',
  'invalid_config',
  'agent_manifest_invalid',
  'run_not_found',
  'not_found',
  'idempotency_conflict',
  'model_not_allowed',
  'unauthorized',
  'forbidden',
]);

/** For what looks again and again: while Redis or the producer is away there is nothing to show, and the next look tries again. */
export function unlessAway(error: unknown): void {
  if (asRunError(error).code !== 'queue_unavailable') throw error;
}

/** Waits until the next look. An interrupt ends it early, and is not thrown: the caller looks at the signal. */
export async function pause(ms: number, interrupted: AbortSignal): Promise<void> {
  try {
    await delay(ms, undefined, { signal: interrupted });
  } catch (error) {
    if (!interrupted.aborted) throw error;
  }
}

/** Prints one JSON document. */
export function printJson({ stdout }: Cli, value: unknown): ExitCode {
  stdout.write(shownJson(value, 2));
  return exitCodes.ok;
}

/** JSON and an end of line. What a terminal would take for a command is escaped, and stays the same value. */
export function shownJson(value: unknown, indent?: number): string {
  const escaped = (sign: string) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, '0')}`;
  return `${JSON.stringify(value, null, indent).replaceAll(/[\u007f-\u009f\u2028-\u202e\u2066-\u2069]/g, escaped)}\n`;
}

interface Page<T> {
  readonly items: readonly T[];
  readonly cursor?: string | undefined;
}

/**
 * Reads pages from `start` until there are `limit` items, or no more. A page may be empty and still not the last. The cursor is
 * where the next items are, if there may be any.
 */
export async function collect<T>(
  { interrupted }: Cli,
  limit: number,
  page: (range: { limit: number; cursor?: string }) => Promise<Page<T>>,
  start?: string,
): Promise<{ found: T[]; cursor: string | undefined }> {
  const found: T[] = [];
  let cursor = start;
  do {
    interrupted.throwIfAborted();
    const next = await page(defined({ limit: Math.min(limit - found.length, maxPage), cursor }));
    found.push(...next.items);
    cursor = next.cursor;
  } while (cursor !== undefined && found.length < limit);
  return { found, cursor };
}

/** The text after a command's options. */
export function examples(...lines: string[]): string {
  return `\nExamples:\n${lines.map((line) => `  $ ${line}`).join('\n')}`;
}

/** Who decides by default: the user of this machine. */
export function thisPerson(): string {
  try {
    return userInfo().username || 'cli';
  } catch {
    // A container may run as a user that has no name.
    return 'cli';
  }
}
