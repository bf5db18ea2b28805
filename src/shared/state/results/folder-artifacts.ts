import { open, readdir, rm, rmdir, stat, mkdir, readFile, writeFile, rename } from 'node:fs/promises';
import { join, dirname } from 'node:path';
import { artifactTtlS } from '../../contract/artifacts.ts';
import { systemClock } from '../../base/clock.ts';
import { RunError } from '../../base/errors.ts';
import { runId as runIdForm, newNonce } from '../../base/ids.ts';
import { jsonText } from '../../base/json.ts';
import {
  type Artifacts,
  checkNames,
  checkSize,
  keptInfo,
  rangeIn,
  runIsFull,
  type ArtifactBounds,
  type Swept,
} from './artifacts.ts';
import type { ReachedKeys } from '../keys.ts';

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

/** The part of a log that this needs. Its own type would bring pino to producers, whose installation may be without it. */
export interface Warnings {
  warn(facts: object, message: string): void;
}

/**
 * Marks the folder, announces the mark, and warns when another process has announced another mark: then the folder is
 * not shared, and what this process keeps cannot be read elsewhere. Again from time to time, so that the mark stays.
 */
export async function announceFolder(root: string, { reach, keys, log }: ReachedKeys & { readonly log: Warnings }) {
  const mark = await markOf(root);
  const isOurs = await reach(async (redis) => {
    const announced = await redis.set(keys.artifactRoot, mark, 'EX', markTtlS, 'NX');
    if (announced !== null) return true;
    if ((await redis.get(keys.artifactRoot)) !== mark) return false;
    return (await redis.expire(keys.artifactRoot, markTtlS)) === 1;
  });
  if (isOurs) return;
  log.warn(
    { folder: root },
    'ARTIFACT_STORE is not the folder that other processes use: mount the same one everywhere',
  );
}

/** A process that made the mark and has not written it by then has died. */
const markReads = 20;
const markWaitMs = 50;

/** The folder's own mark, made when there is none. Of two makers one wins. */
async function markOf(root: string): Promise<string> {
  const path = join(root, markName);
  await writeFile(path, newNonce(), { flag: 'wx', mode: 0o600 }).catch((error: unknown) => {
    if ((error as { readonly code?: unknown }).code !== 'EEXIST') throw error;
  });
  for (let read = 1; read <= markReads; read++) {
    const mark = await readFile(path, 'utf8');
    // Empty: the other process has made it, and is about to write it.
    if (mark !== '') return mark;
    await systemClock.sleep(markWaitMs);
  }
  await writeWhole(path, [Buffer.from(newNonce())]);
  return await readFile(path, 'utf8');
}

const tries = 3;

/** What the names of files that are still being written begin with. */
export const temporaryPrefix = '.tmp-';

/** Writes a file, for the owner only (0600), under another name first: no reader ever sees a part of it. Makes its folders. */
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

/** The first line of a file is what is known about the body, which is the rest. */
const maxHeaderBytes = 4_096;
const newline = 10;

export interface FolderArtifactsOptions {
  readonly root: string;
  readonly bounds: ArtifactBounds;
  /** Progress notes are beside the results and are kept longer. */
  readonly progressTtlS: number;
}

/** Kept results in a folder that all workers share: `<root>/<runId>/spill/<name>`, readable by their owner only. */
export function folderArtifacts({ root, bounds, progressTtlS }: FolderArtifactsOptions): Artifacts & Swept {
  const folderOf = (runId: string) => join(root, runId, 'spill');
  return {
    async put(runId, name, body, info) {
      checkNames(runId, name);
      checkSize(body, bounds);
      const path = join(folderOf(runId), name);
      await guarded('write of a kept result', async () => {
        if ((await bytesBeside(folderOf(runId), name)) + body.length > bounds.maxRunBytes) throw runIsFull(bounds);
        await writeWhole(path, [Buffer.from(`${jsonText(keptInfo.parse(info))}\n`), body]);
      });
    },
    async read(runId, name, offset, length) {
      checkNames(runId, name);
      const path = join(folderOf(runId), name);
      return await guarded('read of a kept result', async () => await readPart(path, offset, length));
    },
    async drop(runId) {
      checkNames(runId);
      await guarded('removal of kept results', async () => {
        await rm(folderOf(runId), { recursive: true, force: true });
        await rmdir(join(root, runId)).catch(() => {});
      });
    },
    async sweep(nowMs) {
      for (const runId of await namesIn(root)) {
        // Other files there are not ours.
        if (!runIdForm.safeParse(runId).success) continue;
        await sweepFolder(join(root, runId, 'spill'), nowMs - artifactTtlS * 1_000);
        await sweepFolder(join(root, runId, 'progress'), nowMs - progressTtlS * 1_000);
        await rmdir(join(root, runId)).catch(() => {});
      }
    },
  };
}

async function readPart(path: string, offset: number, length: number) {
  try {
    await using file = await open(path, 'r');
    const { size } = await file.stat();
    const start = Buffer.alloc(Math.min(maxHeaderBytes, size));
    await readFully(file, start, 0);
    const bodyAt = start.indexOf(newline) + 1;
    const info = keptInfo.parse(JSON.parse(start.toString('utf8', 0, bodyAt)));
    const totalBytes = size - bodyAt;
    const [from, to] = rangeIn(totalBytes, offset, length);
    const bytes = Buffer.alloc(to - from);
    await readFully(file, bytes, bodyAt + from);
    return { bytes, info: { ...info, totalBytes } };
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

export async function readFully(file: Awaited<ReturnType<typeof open>>, into: Buffer, position: number): Promise<void> {
  for (let done = 0; done < into.length;) {
    const { bytesRead } = await file.read(into, done, into.length - done, position + done);
    if (bytesRead === 0) throw new Error('the file ended early');
    done += bytesRead;
  }
}

/** Bytes of all files of a folder but one. */
async function bytesBeside(folder: string, name: string): Promise<number> {
  const others = (await namesIn(folder)).filter((other) => other !== name);
  const sizes = await Promise.all(others.map(async (other) => (await statOf(join(folder, other)))?.size ?? 0));
  return sizes.reduce((sum, size) => sum + size, 0);
}

async function sweepFolder(folder: string, beforeMs: number): Promise<void> {
  for (const name of await namesIn(folder)) {
    const path = join(folder, name);
    const found = await statOf(path);
    if (found && found.mtimeMs < beforeMs) await rm(path, { force: true });
  }
  await rmdir(folder).catch(() => {});
}

export async function namesIn(folder: string): Promise<string[]> {
  return await readdir(folder).catch((error: unknown) => {
    if (isMissing(error)) return [];
    throw error;
  });
}

export async function statOf(path: string) {
  return await stat(path).catch((error: unknown) => {
    if (isMissing(error)) return undefined;
    throw error;
  });
}

export async function guarded<T>(doing: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof RunError) throw error;
    const { code = 'unknown' } = error as { readonly code?: string };
    throw folderFails(doing, code, error);
  }
}

/** The error of a folder of which the file system refuses something. */
export function folderFails(doing: string, code: string, cause?: unknown): RunError {
  return new RunError('queue_unavailable', `the folder of ARTIFACT_STORE fails (${code}): ${doing}`, { cause });
}
