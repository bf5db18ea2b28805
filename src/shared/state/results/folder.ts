import { mkdir, readFile, rm, writeFile, open, rename } from 'node:fs/promises';
import { join, dirname } from 'node:path';
import { RunError } from '../../base/errors.ts';
import { newNonce } from '../../base/ids.ts';
import type { Log } from '../../base/log.ts';
import { redisError } from '../errors.ts';
import type { RedisConnection } from '../connect.ts';
import type { Keys } from '../keys.ts';

const markName = '.millrace-artifacts';
/** So long after the last worker with a folder, another one is as good. */
const markTtlS = 86_400;

/** Makes the folder and writes a probe. Throws `invalid_config` when that does not work. */
export async function probeFolder(root: string): Promise<void> {
  const probe = join(root, `.probe-${newNonce()}`);
  try {
    await mkdir(root, { recursive: true, mode: 0o700 });
    await writeWhole(probe, [Buffer.from('probe')]);
    await rm(probe);
  } catch (cause) {
    const { code = 'unknown' } = cause as { readonly code?: string };
    throw new RunError('invalid_config', `ARTIFACT_STORE: files cannot be written in ${root} (${code})`, { cause });
  }
}

/**
 * Marks the folder, announces the mark, and warns when another worker has announced another mark: then the folder is
 * not shared, and what this worker keeps cannot be read elsewhere. Again from time to time, so that the mark stays.
 */
export async function announceFolder(
  root: string,
  { redis, keys, log }: { readonly redis: RedisConnection; readonly keys: Keys; readonly log: Log },
): Promise<void> {
  const mark = await markOf(root);
  try {
    const announced = await redis.set(keys.artifactRoot, mark, 'EX', markTtlS, 'NX');
    if (announced !== null) return;
    if ((await redis.get(keys.artifactRoot)) === mark) await redis.expire(keys.artifactRoot, markTtlS);
    else
      log.warn(
        { folder: root },
        'ARTIFACT_STORE is not the folder that other workers use: mount the same one everywhere',
      );
  } catch (error) {
    throw redisError(error, 'mark of the folder of kept results');
  }
}

/** The folder's own mark, made when there is none. Of two makers one wins. */
async function markOf(root: string): Promise<string> {
  const path = join(root, markName);
  await writeFile(path, newNonce(), { flag: 'wx', mode: 0o600 }).catch((error: unknown) => {
    if ((error as { readonly code?: unknown }).code !== 'EEXIST') throw error;
  });
  return await readFile(path, 'utf8');
}

const tries = 3;

/** What the names of files that are still being written begin with. */
export const temporaryPrefix = '.tmp-';

/**
 * Writes a file of which no reader ever sees a part: under another name first, then renamed; for the owner only (0600).
 * Makes its folders. What could not be renamed is removed.
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

/** Does this error mean that there is no such file or folder? */
export function isMissing(error: unknown): boolean {
  const { code } = error as { readonly code?: unknown };
  return code === 'ENOENT' || code === 'ENOTDIR';
}
