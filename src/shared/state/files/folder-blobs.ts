import { open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { RunError } from '../../base/errors.ts';
import {
  folderFails,
  guarded,
  isMissing,
  namesIn,
  readFully,
  statOf,
  temporaryIn,
  writeWhole,
} from '../results/folder-artifacts.ts';
import { FolderWriter, type WrittenFile } from './folder-writer.ts';
import type { BlobPlace } from './outer-blobs.ts';

/** Blobs in a folder that all processes share: `<root>/files/<owner>/<name>`, readable by their owner only. */
export function folderBlobs(root: string): BlobPlace {
  const folderOf = (owner: string) => join(root, 'files', owner);
  const writer = new FolderWriter();
  return {
    kind: 'folder',
    async put(owner, name, bytes) {
      await guarded('write of a file', () => writeWhole(join(folderOf(owner), name), [bytes]));
    },
    async putAll(blobs) {
      const failures = await writer.write(blobs.map(({ owner, name, bytes }) => fileIn(folderOf(owner), name, bytes)));
      return await Promise.allSettled(
        blobs.map(async (_, i) => {
          const code = failures[i];
          if (code !== undefined) throw folderFails('write of a file', code);
        }),
      );
    },
    async read(owner, name, from, to) {
      return await guarded('read of a file', () => readRange(join(folderOf(owner), name), from, to));
    },
    async drop(owner) {
      await guarded('removal of a file', () => rm(folderOf(owner), { recursive: true, force: true }));
    },
    async *owners() {
      for (const owner of await guarded('listing of files', () => namesIn(join(root, 'files')))) {
        const found = await guarded('listing of files', () => statOf(folderOf(owner)));
        if (found?.isDirectory()) yield { owner, writtenMs: found.mtimeMs };
      }
    },
  };
}

function fileIn(folder: string, name: string, bytes: Uint8Array): WrittenFile {
  return { path: join(folder, name), temporary: temporaryIn(folder), bytes };
}

async function readRange(path: string, from: number, to: number): Promise<Uint8Array | undefined> {
  try {
    await using file = await open(path, 'r');
    const { size } = await file.stat();
    const bytes = Buffer.alloc(Math.max(0, Math.min(to, size) - from));
    await readFully(file, bytes, from);
    return bytes;
  } catch (error) {
    if (isMissing(error)) return undefined;
    const { code } = error as { readonly code?: unknown };
    // About one file alone: the store is there.
    if (code === 'EISDIR') throw new RunError('internal', 'there is a folder in the place of a file', { cause: error });
    throw error;
  }
}
