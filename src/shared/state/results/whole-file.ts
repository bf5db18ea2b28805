import { mkdir, open, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { newNonce } from '../../base/ids.ts';

const tries = 3;

/** What the names of files that are still being written begin with. */
export const temporaryPrefix = '.tmp-';

/**
 * Writes a file that nobody ever sees a part of: under another name first, then renamed; for the owner only (0600). Makes
 * the folders above it. What could not be renamed is removed.
 */
export async function writeWhole(path: string, parts: readonly Uint8Array[]): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await writeOnce(path, parts);
    } catch (error) {
      // A sweep may take an empty folder away in between.
      if (!isMissing(error) || attempt === tries) throw error;
    }
  }
}

async function writeOnce(path: string, parts: readonly Uint8Array[]): Promise<void> {
  const folder = dirname(path);
  const temporary = join(folder, `${temporaryPrefix}${newNonce()}`);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  try {
    await using file = await open(temporary, 'wx', 0o600);
    for (const part of parts) await file.writeFile(part);
    await file.sync();
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true }).catch(() => {});
    throw error;
  }
}

/** Does this error say that there is no such file or folder? */
export function isMissing(error: unknown): boolean {
  const { code } = error as { readonly code?: unknown };
  return code === 'ENOENT' || code === 'ENOTDIR';
}
