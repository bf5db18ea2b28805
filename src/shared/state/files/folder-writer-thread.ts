import { closeSync, mkdirSync, openSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parentPort } from 'node:worker_threads';
import type { WriteOrder, WriteReply } from './folder-writer.ts';

// The thread of a FolderWriter. It loads nothing else of Millrace: each process that writes to a folder has one.

const tries = 3;
/** For the owner only. */
const mode = 0o600;

parentPort?.on('message', ({ id, temporary, files, bytes }: WriteOrder) => {
  let from = 0;
  const failures = files.map(({ path, length }) => {
    const body = bytes.subarray(from, (from += length));
    return failureOf({ path, temporary: join(dirname(path), temporary), body });
  });
  parentPort?.postMessage({ id, failures } satisfies WriteReply, []);
});

interface File {
  readonly path: string;
  /** What it is called until it is whole, where there is another one in its place. */
  readonly temporary: string;
  readonly body: Uint8Array;
}

/** Writes a file. Answers the code of what has failed. */
function failureOf(file: File): string | undefined {
  for (let attempt = 1; attempt < tries; attempt++) {
    const failure = codeOf(() => write(file));
    if (failure !== 'ENOENT') return failure;
    // Its folder is not there yet, or a sweep took it away, which it does with empty ones.
    const noFolder = codeOf(() => mkdirSync(dirname(file.path), { recursive: true, mode: 0o700 }));
    if (noFolder !== undefined) return noFolder;
  }
  return codeOf(() => write(file));
}

function codeOf(work: () => unknown): string | undefined {
  try {
    work();
    return undefined;
  } catch (error) {
    return (error as { readonly code?: string }).code ?? String(error);
  }
}

/** A new file is made at its place: no reader looks for it before the write is answered. One that is there is replaced as a whole. */
function write({ path, temporary, body }: File): void {
  try {
    writeNew(path, body);
  } catch (error) {
    if ((error as { readonly code?: string }).code !== 'EEXIST') throw error;
    writeNew(temporary, body);
    rename(temporary, path);
  }
}

function writeNew(path: string, body: Uint8Array): void {
  const file = openSync(path, 'wx', mode);
  try {
    writeFileSync(file, body);
  } catch (error) {
    rmSync(path, { force: true });
    throw error;
  } finally {
    closeSync(file);
  }
}

function rename(from: string, to: string): void {
  try {
    renameSync(from, to);
  } catch (error) {
    rmSync(from, { force: true });
    throw error;
  }
}
