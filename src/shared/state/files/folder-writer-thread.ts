import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { parentPort } from 'node:worker_threads';
import type { WriteOrder, WriteReply, WrittenFile } from './folder-writer.ts';

// The thread of a FolderWriter. It loads nothing else of Millrace: each process that writes to a folder has one.

const tries = 3;

parentPort?.on('message', ({ id, files }: WriteOrder) => {
  parentPort?.postMessage({ id, failures: files.map(failureOf) } satisfies WriteReply, []);
});

/** Writes a file. Answers the code of what has failed. */
function failureOf(file: WrittenFile): string | undefined {
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

/** Under another name first: no reader ever sees a part of it. */
function write({ path, temporary, bytes }: WrittenFile): void {
  try {
    writeFileSync(temporary, bytes, { flag: 'wx', mode: 0o600 });
    renameSync(temporary, path);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
}
