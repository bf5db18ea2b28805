import { constants, createReadStream, rmSync } from 'node:fs';
import { access, open, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, extname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { asRunError, messageOf, RunError } from '../../../shared/base/errors.ts';
import { jsonOr, jsonText } from '../../../shared/base/json.ts';
import { batchId, type BatchView } from '../../../shared/contract/batch.ts';
import type { Files } from '../../client/files/files.ts';

/** Which batch an output file is of. It is beside it, so that the same command finds its batch again. */
const note = z.object({
  batch: batchId,
  name: z.string(),
  /** Of the file and the options. */
  digest: z.string(),
  /** The first line began then at the earliest. Milliseconds since the epoch. */
  createdAt: z.int(),
});
export type OutputNote = Readonly<z.infer<typeof note>>;

const tries = 6;
const firstPauseMs = 500;

/** The output file of a batch on this machine. It is there as a whole, or not at all. */
export class OutputFile {
  readonly path: string;
  /** Of the batch that it was written for last. */
  #note: OutputNote | undefined;

  private constructor(path: string, before: OutputNote | undefined) {
    this.path = path;
    this.#note = before;
  }

  /** Throws `validation` for a place that cannot be written to, and for a file that no batch has made. */
  static async open(path: string, requests: string | undefined): Promise<OutputFile> {
    const before = await readNote(path);
    const there = await stat(path).catch(() => undefined);
    if (there && !there.isFile()) throw refuse(path, 'is no file');
    if (there && requests !== undefined && (await isSame(path, requests)))
      throw refuse(path, 'is the file of the requests');
    if (there && there.size > 0 && !before && !(await isOfBatch(path)))
      throw refuse(path, 'has something in it that is no output of a batch');
    await access(dirname(path), constants.W_OK).catch((cause: unknown) => {
      throw unwritable(path, cause);
    });
    return new OutputFile(path, before);
  }

  /** What is beside the file. */
  get note(): OutputNote | undefined {
    return this.#note;
  }

  /** Says which batch the file will be of. What is there of another one moves aside: results were paid for. */
  async begin(batch: BatchView, digest: string): Promise<string | undefined> {
    const before = this.#note;
    const moved = before?.batch === batch.id ? undefined : await this.#moveAside(before?.batch ?? 'replaced');
    this.#note = { batch: batch.id, name: batch.name, digest, createdAt: batch.created_at * 1_000 };
    await this.#write(notePath(this.path), `${jsonText(this.#note)}\n`);
    return moved;
  }

  /** Downloads a file into this place. After a break it goes on where it was. Throws the last error after half a minute. */
  async download(
    files: Pick<Files, 'get' | 'content'>,
    fileId: string,
    onProgress: (bytes: number, all: number) => void,
    signal: AbortSignal,
  ): Promise<void> {
    const { bytes: all } = await files.get(fileId);
    const part = `${this.path}.${process.pid}.part`;
    await using file = await opened(part);
    using _ = { [Symbol.dispose]: () => rmSync(part, { force: true }) };
    let done = 0;
    for (let attempt = 1, pauseMs = firstPauseMs; done < all || attempt === 1; attempt++, pauseMs *= 2) {
      try {
        let seen = 0;
        for await (const chunk of files.content(fileId)) {
          signal.throwIfAborted();
          const fresh = chunk.subarray(Math.max(0, done - seen));
          seen += chunk.length;
          if (fresh.length === 0) continue;
          await file.write(fresh);
          done += fresh.length;
          onProgress(done, all);
        }
        if (done < all) throw new RunError('queue_unavailable', `${fileId} ended after ${done} of ${all} bytes`);
      } catch (thrown) {
        if (attempt === tries || asRunError(thrown).code !== 'queue_unavailable') throw thrown;
        await sleep(pauseMs, undefined, { signal });
      }
    }
    await file.sync();
    const now = await readNote(this.path);
    if (this.#note && now && now.batch !== this.#note.batch)
      throw refuse(this.path, `is to be of ${now.batch} by now, as another command says`);
    await rename(part, this.path);
  }

  /** Writes these bytes in place of what is there. They are all there or none. */
  async replace(bytes: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<void> {
    const part = `${this.path}.${process.pid}.part`;
    await using file = await opened(part);
    using _ = { [Symbol.dispose]: () => rmSync(part, { force: true }) };
    for await (const chunk of bytes) {
      signal.throwIfAborted();
      await file.write(chunk);
    }
    await file.sync();
    await rename(part, this.path);
  }

  /** Of a batch without lines. */
  async writeEmpty(): Promise<void> {
    await this.#write(this.path, '');
  }

  async #moveAside(suffix: string): Promise<string | undefined> {
    const aside = `${this.path}.${suffix}`;
    const there = await stat(this.path).catch(() => undefined);
    if (!there || there.size === 0) return undefined;
    await rename(this.path, aside);
    return aside;
  }

  async #write(path: string, text: string): Promise<void> {
    const part = `${path}.${process.pid}.part`;
    try {
      await writeFile(part, text);
      await rename(part, path);
    } catch (cause) {
      await rm(part, { force: true });
      throw unwritable(path, cause);
    }
  }
}

function notePath(path: string): string {
  return `${path}.batch`;
}

async function readNote(path: string): Promise<OutputNote | undefined> {
  return note.safeParse(jsonOr(await readFile(notePath(path), 'utf8').catch(() => ''))).data;
}

async function opened(path: string) {
  try {
    return await open(path, 'w');
  } catch (cause) {
    throw unwritable(path, cause);
  }
}

/** Does this path lead to the same file, under whatever name? */
async function isSame(one: string, other: string): Promise<boolean> {
  const [a, b] = await Promise.all([stat(one), stat(other).catch(() => undefined)]);
  return b !== undefined && a.dev === b.dev && a.ino === b.ino;
}

const resultLine = z.object({ line: z.int(), executionId: z.string(), status: z.string() });

/** Was it written by a batch, here or on another machine? */
async function isOfBatch(path: string): Promise<boolean> {
  let head = '';
  for await (const chunk of createReadStream(path, { end: 1024 * 1024 }) as AsyncIterable<Buffer>) {
    head += chunk.toString();
    if (head.includes('\n')) break;
  }
  const [first = ''] = head.split(/\r?\n/);
  if (extname(path).toLowerCase() === '.csv') return /,(run_)*cost_usd,(run_)*run_id$/.test(first);
  return resultLine.safeParse(jsonOr(first)).success;
}

function refuse(path: string, why: string): RunError {
  return new RunError('validation', `${path} ${why}: choose another output file`);
}

function unwritable(path: string, cause: unknown): RunError {
  return new RunError('validation', `${path} cannot be written to: ${messageOf(cause)}`, { cause });
}
