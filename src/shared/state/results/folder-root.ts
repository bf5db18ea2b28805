import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { RunError } from '../../base/errors.ts';
import { newNonce } from '../../base/ids.ts';
import type { Log } from '../../base/log.ts';
import { redisError } from '../errors.ts';
import type { RedisConnection } from '../connect.ts';
import type { Keys } from '../keys.ts';
import { writeWhole } from './whole-file.ts';

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
 * Marks the folder, tells the mark to the fleet, and warns when another worker has told another mark: then the folder is
 * not shared, and what this worker keeps cannot be read elsewhere. Again from time to time, so that the mark stays.
 */
export async function announceFolder(
  root: string,
  { redis, keys, log }: { readonly redis: RedisConnection; readonly keys: Keys; readonly log: Log },
): Promise<void> {
  const mark = await markOf(root);
  try {
    const told = await redis.set(keys.artifactRoot, mark, 'EX', markTtlS, 'NX');
    if (told !== null) return;
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
