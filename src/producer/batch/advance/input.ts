import { isCsv, type BatchRecord } from '../../../shared/contract/batch-record.ts';
import { defined } from '../../../shared/base/collections.ts';
import { asRunError, RunError } from '../../../shared/base/errors.ts';
import type { FileStore } from '../../../shared/state/files/files.ts';
import type { BatchLine, ErasedLines, LineDefaults, LineHead, LineSource, SourceDraft } from '../lines/line.ts';
import { lineSource, readLines } from '../lines/read-lines.ts';
import type { InputLines } from './own-batch.ts';

/** Where the header of a CSV has to be. */
const headBytes = 1024 * 1024;

/** The input file of one batch. What was learnt of it is kept for as long as a stay. */
export class BatchInput implements InputLines {
  readonly #record: BatchRecord;
  readonly #files: Pick<FileStore, 'read'>;
  readonly #erased: ErasedLines;
  #source: Promise<LineSource> | undefined;

  constructor(record: BatchRecord, files: Pick<FileStore, 'read'>, erased: ErasedLines) {
    this.#record = record;
    this.#files = files;
    this.#erased = erased;
  }

  async source(): Promise<LineSource> {
    this.#source ??= this.#open();
    return await this.#source;
  }

  async *all(): AsyncGenerator<readonly [number, BatchLine]> {
    const source = await this.source();
    const erased = await this.#erased(this.#record.request.input_file_id);
    let place = 0;
    for await (const line of readLines(this.#read(), source, erased)) yield [place++, line];
  }

  /** The source, or as much of it as is known without the file. */
  async sourceOrDraft(): Promise<LineSource> {
    return await this.source().catch((error: unknown) => {
      if (!isInputGone(error)) throw error;
      return { ...this.#draft(), columns: isCsv(this.#record) ? [] : undefined };
    });
  }

  async textOf({ offset, length }: Pick<LineHead, 'offset' | 'length'>): Promise<string> {
    return (await this.#bytes(offset, offset + length)).toString('utf8');
  }

  async #open(): Promise<LineSource> {
    return lineSource(this.#draft(), await this.#bytes(0, headBytes));
  }

  #draft(): SourceDraft {
    const { request, filename, answerFields } = this.#record;
    const isOurs = request.endpoint === '/v1/runs';
    const { queue, priority } = request;
    const { agent, overrides, deadlineMs } = isOurs ? request : {};
    const defaults: LineDefaults = defined({ agent, overrides, deadlineMs, queue, priority });
    const inputTemplate = isOurs ? request.inputTemplate : undefined;
    return { endpoint: request.endpoint, filename, defaults, inputTemplate, answerFields };
  }

  async #bytes(from: number, to: number): Promise<Buffer> {
    const parts: Uint8Array[] = [];
    for await (const bytes of this.#read(from, to)) parts.push(bytes);
    return Buffer.concat(parts);
  }

  async *#read(from?: number, to?: number): AsyncIterable<Uint8Array> {
    const { tenant, request } = this.#record;
    try {
      yield* this.#files.read(tenant, request.input_file_id, from, to);
    } catch (thrown) {
      const error = asRunError(thrown);
      throw error.code === 'not_found' ? new InputGone(error) : error;
    }
  }
}

/** The input file was deleted while its batch was open, or its bytes are lost. */
class InputGone extends RunError {
  constructor(cause: RunError) {
    super('not_found', cause.message, { cause });
  }
}

/** Is it about the input file, which no try brings back? */
export function isInputGone(error: unknown): error is RunError {
  return error instanceof InputGone;
}
