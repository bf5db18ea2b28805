import { extname, join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { type Clock, systemClock } from '../../base/clock.ts';
import { orLate } from '../../base/deadline.ts';
import { RunError } from '../../base/errors.ts';
import { newNonce } from '../../base/ids.ts';
import { temporaryPrefix } from '../results/folder-artifacts.ts';

export interface NewFile {
  readonly path: string;
  readonly bytes: Uint8Array;
}

/** What the thread is sent. */
export interface WriteOrder {
  readonly id: number;
  /** A name that no other file has, for one that replaces another, until it is whole. */
  readonly temporary: string;
  readonly files: readonly { readonly path: string; readonly length: number }[];
  /** Of all files, one after the other: many small pieces take longer to hand over. */
  readonly bytes: Uint8Array;
}

/** What it answers: for each file undefined, or the code of the error. */
export interface WriteReply {
  readonly id: number;
  readonly failures: readonly (string | undefined)[];
}

const threadFile = join(import.meta.dirname, `folder-writer-thread${extname(import.meta.filename)}`);
const deadlineMs = 30_000;

interface Waiting {
  readonly resolve: (failures: WriteReply['failures']) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Writes many small files in a thread of its own, with calls that block: the asynchronous ones, five for each file, cost a process two
 * to three times as much. The files are with the kernel when it answers, and not yet on the disk. The thread begins with the first
 * files, and does not keep the process alive.
 */
export class FolderWriter {
  readonly #clock: Pick<Clock, 'sleep'>;
  /** The beginning of names that no other writer has: randomness for each order costs as much as a few of its files. */
  readonly #temporary = `${temporaryPrefix}${newNonce()}-`;
  readonly #waiting = new Map<number, Waiting>();
  #orders = 0;
  #thread: Worker | undefined;
  /** It has not answered in time, and has not ended yet. */
  #hangs = false;

  constructor({ clock = systemClock }: { readonly clock?: Pick<Clock, 'sleep'> } = {}) {
    this.#clock = clock;
  }

  /**
   * Answers for each file undefined, or the code of the error, for instance `ENOSPC`. Throws `queue_unavailable` when the folder does not
   * answer in time: then any of the files may be there, now or later.
   */
  async write(files: readonly NewFile[]): Promise<WriteReply['failures']> {
    if (this.#hangs) throw unanswered();
    this.#thread ??= this.#begin();
    const { promise, resolve, reject } = Promise.withResolvers<WriteReply['failures']>();
    const id = ++this.#orders;
    this.#waiting.set(id, { resolve, reject });
    try {
      this.#thread.postMessage(orderOf(id, `${this.#temporary}${id}`, files), []);
      return await orLate(deadlineMs, promise, () => this.#giveUp(), { clock: this.#clock });
    } finally {
      this.#waiting.delete(id);
    }
  }

  #begin(): Worker {
    const thread = new Worker(threadFile);
    thread.unref();
    thread.on('message', ({ id, failures }: WriteReply) => this.#waiting.get(id)?.resolve(failures));
    thread.on('error', (cause) => this.#failAll(cause));
    thread.on('exit', (code) => {
      this.#thread = undefined;
      this.#hangs = false;
      this.#failAll(new Error(`its exit code is ${code}`));
    });
    return thread;
  }

  /** A call that the kernel does not answer cannot be ended: no other thread begins before this one has. */
  #giveUp(): never {
    this.#hangs = true;
    void this.#thread?.terminate();
    throw unanswered();
  }

  #failAll(cause: unknown): void {
    const error = new RunError(
      'queue_unavailable',
      'the thread that writes to the folder of ARTIFACT_STORE has ended',
      {
        cause,
      },
    );
    for (const { reject } of this.#waiting.values()) reject(error);
  }
}

function orderOf(id: number, temporary: string, files: readonly NewFile[]): WriteOrder {
  return {
    id,
    temporary,
    files: files.map(({ path, bytes }) => ({ path, length: bytes.length })),
    bytes: Buffer.concat(files.map(({ bytes }) => bytes)),
  };
}

function unanswered(): RunError {
  return new RunError('queue_unavailable', `the folder of ARTIFACT_STORE has not answered within ${deadlineMs} ms`);
}
