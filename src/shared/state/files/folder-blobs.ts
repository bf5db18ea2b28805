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
  temporaryPrefix,
  writeWhole,
} from '../results/folder-artifacts.ts';
import { FolderWriter } from './folder-writer.ts';
import { isBlobName, onlyBlob } from './blobs.ts';
import type { BlobPlace } from './outer-blobs.ts';

/**
 * Blobs in a folder that all processes share, readable by their owner only: `<root>/files/<owner>/<name>`, or `<root>/files/<owner>` where
 * it is the only one. To make a folder costs as much as to write a small file.
 */
export function folderBlobs(root: string): BlobPlace {
  const files = join(root, 'files');
  const placeOf = (owner: string) => join(files, owner);
  const pathOf = (owner: string, name: string) => (name === onlyBlob ? placeOf(owner) : join(placeOf(owner), name));
  const writer = new FolderWriter();
  return {
    kind: 'folder',
    async put(owner, name, bytes) {
      await guarded('write of a file', () => writeWhole(pathOf(owner, name), [bytes]));
    },
    async putAll(blobs) {
      const drafts = blobs.map(({ owner, name, bytes }) => ({ path: pathOf(owner, name), bytes }));
      const failures = await guarded('write of files', () => writer.write(drafts));
      return await Promise.allSettled(
        blobs.map(async (_, i) => {
          const code = failures[i];
          if (code !== undefined) throw folderFails('write of a file', code);
        }),
      );
    },
    async read(owner, name, from, to) {
      return await guarded('read of a file', () => readRange(pathOf(owner, name), from, to));
    },
    async drop(owner) {
      await guarded('removal of a file', () => rm(placeOf(owner), { recursive: true, force: true }));
    },
    async *owners() {
      for (const owner of await guarded('listing of files', () => namesIn(files))) {
        // Other files there are not ours.
        if (!isBlobName(owner) && !owner.startsWith(temporaryPrefix)) continue;
        const found = await guarded('listing of files', () => statOf(placeOf(owner)));
        if (found) yield { owner, writtenMs: found.mtimeMs };
      }
    },
  };
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
