import { createReadStream } from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';
import { z } from 'zod';
import { errorInfo, RunError } from '../../shared/base/errors.ts';
import { jsonOr, jsonText } from '../../shared/base/json.ts';
import { microcents, runUsage } from '../../shared/contract/money.ts';
import { runStatus } from '../../shared/contract/run.ts';
import { textLines } from './batch-file.ts';

/** A line of the output file. `runId` is absent for a line that never became a run. */
export const batchResult = z.object({
  line: z.int().min(1),
  id: z.string().optional(),
  executionId: z.string(),
  runId: z.string().optional(),
  status: runStatus,
  text: z.string(),
  error: errorInfo.optional(),
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

/** The results of a batch on disk: append-only, one line a result, each line of the input at most once. */
export class BatchOutput implements AsyncDisposable {
  readonly path: string;
  /** What was in the file when it was opened. */
  readonly earlier: readonly Pick<BatchResult, 'line' | 'status' | 'costMicrocents'>[];
  readonly #file: FileHandle;
  #lastWrite: Promise<unknown> = Promise.resolve();

  private constructor(path: string, file: FileHandle, earlier: BatchOutput['earlier']) {
    this.path = path;
    this.#file = file;
    this.earlier = earlier;
  }

  /**
   * Opens or makes the file. What a crash left half written at its end is cut off. Throws `validation`, and leaves the
   * file as it is, when it cannot be written or contains anything but results of this batch.
   */
  static async open(path: string, executionId: (line: number) => string): Promise<BatchOutput> {
    const file = await open(path, 'a+').catch((cause: unknown) => {
      throw new RunError('validation', `${path} cannot be written: ${(cause as Error).message}`, { cause });
    });
    try {
      const whole = await wholeLinesBytes(file);
      const earlier = await readEarlier(path, whole, executionId);
      await cutTornLine(file, whole, path);
      return new BatchOutput(path, file, earlier);
    } catch (error) {
      await file.close();
      throw error;
    }
  }

  /** Resolves when the line has been handed to the operating system. Calls may overlap; lines never do. */
  async append(result: BatchResult): Promise<void> {
    const written = this.#lastWrite.then(() => this.#file.appendFile(`${jsonText(result)}\n`));
    this.#lastWrite = written.catch(() => undefined);
    await written;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#lastWrite;
    await this.#file.close();
  }
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

async function readEarlier(
  path: string,
  bytes: number,
  executionId: (line: number) => string,
): Promise<BatchOutput['earlier']> {
  const earlier: Pick<BatchResult, 'line' | 'status' | 'costMicrocents'>[] = [];
  if (bytes === 0) return earlier;
  const chunks = createReadStream(path, { end: bytes - 1 }) as AsyncIterable<Buffer>;
  for await (const found of textLines(chunks, maxLineBytes)) {
    const result = 'text' in found ? batchResult.safeParse(jsonOr(found.text)).data : undefined;
    if (!result) throw notOurs(path, `line ${found.number} is not a result of a batch`);
    if (result.executionId !== executionId(result.line))
      throw notOurs(path, 'contains results of another file, or of other options');
    earlier.push({ line: result.line, status: result.status, costMicrocents: result.costMicrocents });
  }
  return earlier;
}

/** A line without its newline was cut short by a crash; its run still has the result. */
async function cutTornLine(file: FileHandle, whole: number, path: string): Promise<void> {
  const { size } = await file.stat();
  if (size === whole) return;
  const buffer = Buffer.alloc(lineStart.length);
  const { bytesRead } = await file.read(buffer, 0, buffer.length, whole);
  if (!lineStart.startsWith(buffer.toString('utf8', 0, bytesRead)))
    throw notOurs(path, 'its last line is not a result of a batch');
  await file.truncate(whole);
}

function notOurs(path: string, why: string): RunError {
  return new RunError('validation', `${path}: ${why}; choose another output file`);
}
