import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';
import { messageOf, RunError } from '../../../shared/base/errors.ts';
import type { SourceDraft } from '../../batch/lines/line.ts';
import { lineSource, readLines } from '../../batch/lines/read-lines.ts';

/** What is known of a file of requests before it is uploaded. */
export interface OwnFile {
  readonly path: string;
  readonly bytes: number;
  readonly sha256: string;
  /** Lines that are requests, and those that are wrong. */
  readonly lines: number;
  readonly badLines: number;
}

const headBytes = 1024 * 1024;

/**
 * Reads a file from its beginning to its end, as the server will. `onBad` hears of each wrong line. Throws `validation` for a file
 * that cannot be read, or that no line could be right in, and the signal's reason.
 */
export async function checkFile(
  path: string,
  draft: SourceDraft,
  onBad: (line: number, message: string) => void,
  signal: AbortSignal,
): Promise<OwnFile> {
  const head = await headOf(path);
  if (head.length === 0) return { path, bytes: 0, sha256: createHash('sha256').digest('hex'), lines: 0, badLines: 0 };
  const source = lineSource(draft, head);
  const hash = createHash('sha256');
  let [bytes, lines, badLines] = [0, 0, 0];
  async function* counted() {
    for await (const chunk of readFrom(path)) {
      signal.throwIfAborted();
      bytes += chunk.length;
      hash.update(chunk);
      yield chunk;
    }
  }
  for await (const line of readLines(counted(), source)) {
    if (line.kind === 'request') lines += 1;
    else {
      badLines += 1;
      onBad(line.line, line.error.message);
    }
  }
  return { path, bytes, sha256: hash.digest('hex'), lines, badLines };
}

/** The bytes of a file. Throws `validation` when it cannot be read. */
export async function* readFrom(path: string): AsyncGenerator<Uint8Array> {
  try {
    yield* createReadStream(path) as AsyncIterable<Buffer>;
  } catch (thrown) {
    throw unreadable(path, thrown);
  }
}

async function headOf(path: string): Promise<Uint8Array> {
  try {
    await using file = await open(path);
    return await firstBytes(file);
  } catch (thrown) {
    throw unreadable(path, thrown);
  }
}

async function firstBytes(file: FileHandle): Promise<Uint8Array> {
  const buffer = Buffer.alloc(headBytes);
  let length = 0;
  for (;;) {
    const { bytesRead } = await file.read(buffer, length, headBytes - length, length);
    length += bytesRead;
    if (bytesRead === 0 || length === headBytes) return buffer.subarray(0, length);
  }
}

function unreadable(path: string, cause: unknown): unknown {
  if ((cause as NodeJS.ErrnoException).syscall === undefined) return cause;
  return new RunError('validation', `${path} cannot be read: ${messageOf(cause)}`, { cause });
}
