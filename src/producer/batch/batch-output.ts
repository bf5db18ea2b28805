import { createReadStream, createWriteStream } from 'node:fs';
import { open, realpath, rename, stat, type FileHandle } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { z } from 'zod';
import { errorInfo, RunError } from '../../shared/base/errors.ts';
import { jsonOr, jsonText } from '../../shared/base/json.ts';
import { microcents, runUsage } from '../../shared/contract/money.ts';
import { unfinishedWork } from '../../shared/contract/unfinished.ts';
import { runResult } from '../../shared/contract/event.ts';
import { runStatus } from '../../shared/contract/run.ts';
import { executionIdParts, type BatchLine, type BatchSource } from './batch-file.ts';
import { OutputLock } from './output-lock.ts';
import { textLines } from './text-lines.ts';

/** A line of the output file. `runId` is absent for a line that never became a run. */
export const batchResult = z.object({
  line: z.int().min(1),
  id: z.string().optional(),
  executionId: z.string(),
  runId: z.string().optional(),
  status: runStatus,
  text: z.string(),
  error: errorInfo.optional(),
  unfinished: unfinishedWork.optional(),
  incomplete: runResult.shape.incomplete,
  costMicrocents: microcents,
  usage: runUsage.optional(),
});
export type BatchResult = z.infer<typeof batchResult>;

const maxLineBytes = 16 * 1024 * 1024;
/** How every line begins: the end of another file does not. */
const lineStart = '{"line":';

/** Did this line give an answer? `blocked` is an answer that a guard withheld. */
export function isFailure({ status }: Pick<BatchResult, 'status'>): boolean {
  return status !== 'completed' && status !== 'degraded';
}

/** What an output file is opened for. */
export interface OutputOf {
  readonly batch: BatchSource;
  /** The lines of the file of requests, by their execution ids. */
  readonly lines: ReadonlyMap<string, IndexedLine>;
  /** Results of failed runs count as missing. */
  readonly retryFailed: boolean;
}

/** What of a line has to be known to recognise its result. */
export interface IndexedLine {
  readonly line: number;
  readonly kind: BatchLine['kind'];
}

/** A result that an earlier try wrote. */
export type EarlierResult = Pick<BatchResult, 'executionId' | 'runId' | 'status' | 'costMicrocents'>;

/** The results of a batch on disk: one line a result, each line of the input at most once. */
export class BatchOutput implements AsyncDisposable {
  readonly path: string;
  /** What stays of what was in the file when it was opened. */
  readonly earlier: readonly EarlierResult[];
  /** Results of lines that have changed or are gone: they were moved to `PATH.replaced`. */
  readonly replaced: number;
  readonly #file: FileHandle;
  readonly #lock: OutputLock;
  readonly #held: AsyncDisposableStack;
  #lastWrite: Promise<unknown> = Promise.resolve();

  private constructor(path: string, { file, lock, sorted, held }: Opened) {
    this.path = path;
    this.#file = file;
    this.#lock = lock;
    this.#held = held;
    this.earlier = sorted.kept;
    this.replaced = sorted.replaced;
  }

  /**
   * Opens or makes the file, with a lock beside it. What a crash left half written at its end is cut off. When the requests
   * have changed since, it is written anew: results get the present numbers of their lines, and those of lines that are there
   * no longer move to `PATH.replaced`. Throws `validation`, and leaves the file as it is, when it cannot be written, another
   * process writes it, or it contains anything but results of this batch.
   */
  static async open(path: string, of: OutputOf): Promise<BatchOutput> {
    // No lock beside what is no output file.
    await refuseNoOutput(path, of.batch.file);
    await using opening = new AsyncDisposableStack();
    const lock = opening.use(await OutputLock.take(await realpath(path)));
    let file = opening.use(await openToAppend(path));
    const whole = await wholeLinesBytes(file);
    const sorted = await sortEarlier(path, whole, of);
    await checkTornLine(file, whole, path);
    if (sorted.isCurrent) await file.truncate(whole);
    else {
      await rewrite(path, whole, sorted);
      file = opening.use(await openToAppend(path));
    }
    return new BatchOutput(path, { file, lock, sorted, held: opening.move() });
  }

  /** Resolves when the line has been handed to the operating system. Calls may overlap; lines never do. */
  async append(result: BatchResult): Promise<void> {
    const written = this.#lastWrite.then(async () => {
      await this.#lock.prove();
      await this.#file.appendFile(`${jsonText(result)}\n`);
    });
    this.#lastWrite = written.catch(() => undefined);
    await written;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#lastWrite;
    await this.#held.disposeAsync();
  }
}

/** An output file that is this process' own. Disposing `held` gives all of it back. */
interface Opened {
  readonly file: FileHandle;
  readonly lock: OutputLock;
  readonly sorted: Pick<Sorted, 'kept' | 'replaced'>;
  readonly held: AsyncDisposableStack;
}

async function refuseNoOutput(path: string, requests: string): Promise<void> {
  await using file = await openToAppend(path);
  if (!(await file.stat()).isFile()) throw notOurs(path, 'is no file that results can be read from again');
  if (await isSame(file, requests)) throw notOurs(path, 'is the file of the requests');
}

/** Does this path lead to the open file, under whatever name? */
async function isSame(file: FileHandle, path: string): Promise<boolean> {
  const [one, other] = await Promise.all([file.stat(), stat(path).catch(() => undefined)]);
  return other !== undefined && one.dev === other.dev && one.ino === other.ino;
}

/** Bytes up to and with the last newline. */
async function wholeLinesBytes(file: FileHandle): Promise<number> {
  const buffer = Buffer.alloc(64 * 1024);
  for (let end = (await file.stat()).size; end > 0;) {
    const start = Math.max(0, end - buffer.length);
    const { bytesRead } = await file.read(buffer, 0, end - start, start);
    const newline = buffer.subarray(0, bytesRead).lastIndexOf(0x0a);
    if (newline >= 0) return start + newline + 1;
    end = start;
  }
  return 0;
}

/** What becomes of a result: it stays, under this number of its line; it moves; or it goes, because its line is tried again. */
type Fate = { readonly line: number } | 'replaced' | 'dropped';

interface Sorted {
  readonly kept: EarlierResult[];
  readonly replaced: number;
  /** Every result stays as it is. */
  readonly isCurrent: boolean;
  readonly fate: (result: BatchResult, line: number) => Fate;
}

async function sortEarlier(path: string, bytes: number, of: OutputOf): Promise<Sorted> {
  const kept: EarlierResult[] = [];
  const keptFrom = new Map<string, number>();
  let replaced = 0;
  let isCurrent = true;
  for await (const { result, number } of resultsIn(path, bytes)) {
    refuseForeign(path, result, of.batch);
    const fate = fateOf(result, of, keptFrom.has(result.executionId));
    if (fate === 'replaced') replaced += 1;
    if (typeof fate === 'string' || fate.line !== result.line) isCurrent = false;
    if (typeof fate === 'string') continue;
    keptFrom.set(result.executionId, number);
    const { executionId, runId, status, costMicrocents } = result;
    kept.push({ executionId, runId, status, costMicrocents });
  }
  const fate = (result: BatchResult, number: number) => {
    const from = keptFrom.get(result.executionId);
    return fateOf(result, of, from !== undefined && from !== number);
  };
  return { kept, replaced, isCurrent, fate };
}

function fateOf(result: BatchResult, { lines, retryFailed }: OutputOf, isCopy: boolean): Fate {
  const found = lines.get(result.executionId);
  const { runId, status } = result;
  if (!found) return runId === undefined ? 'dropped' : 'replaced';
  // No run, no cost: what was refused may be accepted now. A line that is no request stays one until it is changed.
  const isOpen = runId === undefined ? found.kind === 'request' : retryFailed && status === 'failed';
  return isCopy || isOpen ? 'dropped' : { line: found.line };
}

interface FoundResult {
  readonly result: BatchResult;
  /** The same with fields that this version does not know. */
  readonly written: object;
  /** Of the line in the output file. */
  readonly number: number;
}

async function* resultsIn(path: string, bytes: number): AsyncGenerator<FoundResult> {
  if (bytes === 0) return;
  const chunks = createReadStream(path, { end: bytes - 1 }) as AsyncIterable<Buffer>;
  for await (const found of textLines(chunks, maxLineBytes)) {
    const written = 'text' in found ? jsonOr(found.text) : undefined;
    const result = batchResult.safeParse(written).data;
    if (!result) throw notOurs(path, `line ${found.number} is not a result of a batch`);
    yield { result, written: written as object, number: found.number };
  }
}

function refuseForeign(path: string, { executionId }: BatchResult, batch: OutputOf['batch']): void {
  const own = executionIdParts(batch);
  if (executionId.startsWith(own.options)) return;
  const [kind, name = ''] = executionId.split(':');
  if (executionId.startsWith(own.batch))
    throw notOurs(path, 'contains results of other options', 'give the same --agent, --model and --deadline, or ');
  if (kind !== 'batch') throw notOurs(path, 'contains results that are not of a batch');
  throw notOurs(path, `contains results of the batch ${name}`, `continue it with --name ${name}, or `);
}

/** Replaces the file by one with what stays of it. A crash leaves the old file or the new one. */
async function rewrite(path: string, bytes: number, { fate, replaced }: Sorted): Promise<void> {
  const lines = async function* (wanted: (fate: Fate) => boolean) {
    for await (const { result, written, number } of resultsIn(path, bytes)) {
      const found = fate(result, number);
      if (wanted(found)) yield `${jsonText(typeof found === 'string' ? written : { ...written, line: found.line })}\n`;
    }
  };
  // First: a result that was paid for is never in no file.
  if (replaced > 0) {
    await pipeline(
      lines((found) => found === 'replaced'),
      createWriteStream(`${path}.replaced`, { flags: 'a', flush: true }),
    );
  }
  // A link stays one: the lock is beside what it leads to.
  const real = await realpath(path);
  await pipeline(
    lines((found) => typeof found !== 'string'),
    createWriteStream(`${real}.new`, { flush: true }),
  );
  await rename(`${real}.new`, real);
}

/** A line without its newline was cut short by a crash, and its run still has the result; any other text is not ours. */
async function checkTornLine(file: FileHandle, whole: number, path: string): Promise<void> {
  const buffer = Buffer.alloc(lineStart.length);
  const { bytesRead } = await file.read(buffer, 0, buffer.length, whole);
  if (!lineStart.startsWith(buffer.toString('utf8', 0, bytesRead)))
    throw notOurs(path, 'its last line is not a result of a batch');
}

async function openToAppend(path: string): Promise<FileHandle> {
  return await open(path, 'a+').catch((cause: unknown) => {
    throw new RunError('validation', `${path} cannot be written: ${(cause as Error).message}`, { cause });
  });
}

function notOurs(path: string, why: string, wayOut = ''): RunError {
  return new RunError('validation', `${path}: ${why}; ${wayOut}choose another output file`);
}
