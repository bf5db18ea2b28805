import type { BatchRequestInput, BatchStatus, BatchView } from '../../../shared/contract/batch.ts';
import type { BatchRecord } from '../../../shared/contract/batch-record.ts';

/** A page of batches, newest first. */
export interface BatchesPage {
  readonly data: readonly BatchView[];
  readonly has_more: boolean;
}

export interface BatchesQuery {
  /** The last id of the page before. */
  readonly after?: string | undefined;
  /** 1 to 100, default 20. */
  readonly limit?: number | undefined;
}

export interface CreateBatchOptions {
  /** The same key again answers with the batch that it has made. */
  readonly idempotencyKey?: string | undefined;
  /**
   * For clients that repeat a request without a key: `isRepeat` says that this one may be such. Then the batch that the same
   * request has made within ten minutes is the answer.
   */
  readonly repeat?: { readonly digest: string; readonly isRepeat: boolean } | undefined;
}

/** What a line has come to, as it is counted. */
export type LineEnd = 'answered' | 'failed' | 'refused';

/** Something that happened to a batch on this process. */
export type BatchNews =
  | { readonly kind: 'status'; readonly record: BatchRecord; readonly before: BatchStatus }
  | { readonly kind: 'line'; readonly end: LineEnd }
  | { readonly kind: 'failed'; readonly batchId: string; readonly error: unknown };

export interface AdvanceOptions {
  /** Batches at once. Default 4; the others wait in the queue. */
  readonly atOnce?: number | undefined;
  /** After so many milliseconds a batch lets others that wait have its place. Default 60,000. */
  readonly turnMs?: number | undefined;
  /** Lease of a job in milliseconds, and how often lost ones are looked for; the same in all processes. Default 15,000 and 5,000. */
  readonly lockDurationMs?: number | undefined;
  readonly stalledIntervalMs?: number | undefined;
  /** Called with what happens. Must not throw. */
  readonly onNews?: ((news: BatchNews) => void) | undefined;
}

/** A process that advances batches, until it is disposed. */
export interface Advancing extends AsyncDisposable {
  /** Batches of all tenants that have not ended. */
  countOpen(): Promise<number>;
}

/** The lines of output of a batch: those with an answer, those without one, or all, first those with one. */
export type BatchResults = 'all' | 'answers' | 'errors';

/** What a redrive of a batch found. */
export interface RedrivenBatch {
  readonly batch: BatchView;
  /** Lines that run again. */
  readonly lines: number;
}

/**
 * Batches of one tenant: files of requests that run in the background until every line has its outcome, whatever happens to the process
 * that asked for them. Every method throws `RunError`, like the client that it belongs to; a batch of another tenant is `not_found`.
 */
export interface Batches {
  /**
   * Accepts a batch of the lines of a file that was uploaded before. It is advanced by the producers, or by a process that
   * {@link advance}s batches.
   *
   * Throws `validation` (also for an agent that is not known, and a file that is for something else), `not_found` for a file that is
   * gone, `unknown_queue`, `queue_full` with 100 open batches, `idempotency_conflict`, `forbidden` for a budget that an account
   * has already.
   *
   * @example
   * const file = await mill.files.upload(createReadStream('tickets.jsonl'), { filename: 'tickets.jsonl', purpose: 'batch' });
   * const batch = await mill.batches.create({ input_file_id: file.id, endpoint: '/v1/runs', agent: 'support' });
   * for await (const { request_counts } of mill.batches.events(batch.id)) console.log(request_counts);
   */
  create(request: BatchRequestInput, options?: CreateBatchOptions): Promise<BatchView>;
  /** The present state. */
  get(id: string): Promise<BatchView>;
  /** Newest first. Throws `validation` for a query that makes no sense. */
  list(query?: BatchesQuery): Promise<BatchesPage>;
  /** The state now, and again whenever it has changed, at most once a second. Ends after the end of the batch. */
  events(id: string, options?: { readonly signal?: AbortSignal | undefined }): AsyncIterable<BatchView>;
  /** Begins no further line; what is open goes on. One that is paused stays so. Throws `already_terminal` for one that has ended or ends. */
  pause(id: string): Promise<BatchView>;
  /** Goes on with a batch that is paused, or that waits with its quote. Throws `already_terminal` for one that has ended or ends. */
  resume(id: string): Promise<BatchView>;
  /** Stops the open runs and begins no further line. The answers that there are become its output. Throws `already_terminal`. */
  cancel(id: string): Promise<BatchView>;
  /**
   * Runs the lines again that have failed: a failed run continues from its journal. A batch that has ended is open again for another
   * completion window, and its files are made anew. Throws `already_terminal` for one that ends now, or whose file was no batch.
   */
  redrive(id: string): Promise<RedrivenBatch>;
  /**
   * The results of the lines that have one by now, as the files of the batch have them or will: lines of JSONL, or a CSV with its
   * header. Nothing where there is none. The iteration throws `not_found` for what is gone with its file.
   *
   * @example
   * for await (const bytes of mill.batches.results(batch.id, { of: 'errors' })) process.stdout.write(bytes);
   */
  results(id: string, options?: { readonly of?: BatchResults | undefined }): AsyncIterable<Uint8Array>;
  /**
   * Advances batches of all tenants on this process, until it is disposed: for programs beside Redis where no producer runs. Over
   * HTTP it does nothing, for the server does.
   */
  advance(options?: AdvanceOptions): Promise<Advancing>;
}
