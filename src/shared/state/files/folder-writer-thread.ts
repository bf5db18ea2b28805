import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { parentPort } from 'node:worker_threads';
import type { WriteOrder, WriteReply, WrittenFile } from './folder-writer.ts';

// The thread of a FolderWriter. It loads nothing else of Millrace: each process that writes to a folder has one.

const tries = 3;

parentPort?.on('message', ({ id, files }: WriteOrder) => {
  parentPort?.postMessage({ id, failures: files.map(failureOf) } satisfies WriteReply, []);
});

/** Writes a file. Answers what has failed. */
function failureOf(file: WrittenFile): string | undefined {
  for (let attempt = 1; ; attempt++) {
    try {
      write(file);
      return undefined;
    } catch (error) {
      const { code = String(error) } = error as { readonly code?: string };
      // A sweep may take an empty folder away in between.
      if (code !== 'ENOENT' || attempt === tries) return code;
    }
  }
}

/** Under another name first: no reader ever sees a part of it. */
function write({ path, temporary, bytes }: WrittenFile): void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  try {
    writeFileSync(temporary, bytes, { flag: 'wx', mode: 0o600 });
    renameSync(temporary, path);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
}
