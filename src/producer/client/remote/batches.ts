import type { BatchRequestInput, BatchView } from '../../../shared/contract/batch.ts';
import { isEndedBatch } from '../../../shared/contract/plain/batch-ends.ts';
import type {
  Advancing,
  Batches,
  BatchResults,
  BatchesPage,
  BatchesQuery,
  CreateBatchOptions,
  RedrivenBatch,
} from '../batches/batches.ts';
import { stoppable } from '../stop-signal.ts';
import { newKey } from './accept.ts';
import { bytesOf } from './files.ts';
import { resuming } from './follow.ts';
import { at, type Link } from './link.ts';

/** The batches over HTTP. */
export class RemoteBatches implements Batches {
  readonly #link: Link;

  constructor(link: Link) {
    this.#link = link;
  }

  async create(request: BatchRequestInput, { idempotencyKey }: CreateBatchOptions = {}): Promise<BatchView> {
    // With a key of its own it can be asked for again when the answer is lost.
    const headers = { 'idempotency-key': idempotencyKey ?? newKey() };
    const asked = {
      method: 'POST',
      path: '/v1/batches',
      body: { json: request },
      headers,
      isRepeatable: true,
    } as const;
    return await this.#link.json(asked);
  }

  async get(id: string): Promise<BatchView> {
    return await this.#link.json({ path: at`/v1/batches/${id}` });
  }

  async list(query: BatchesQuery = {}): Promise<BatchesPage> {
    const { data, has_more } = await this.#link.json<BatchesPage>({ path: '/v1/batches', query: { ...query } });
    return { data, has_more };
  }

  events(id: string, { signal }: { readonly signal?: AbortSignal | undefined } = {}): AsyncIterable<BatchView> {
    const link = this.#link;
    const path = at`/v1/batches/${id}/events`;
    return stoppable([signal, link.closing], async function* (stop) {
      let last: BatchView | undefined;
      const isOver = async () => last !== undefined && isEndedBatch(last.status);
      for await (const { data } of resuming(link, { ask: () => ({ path }), isOver }, stop)) {
        last = data as BatchView;
        yield last;
      }
    });
  }

  async pause(id: string): Promise<BatchView> {
    return await this.#steer(at`/v1/batches/${id}/pause`);
  }

  async resume(id: string): Promise<BatchView> {
    return await this.#steer(at`/v1/batches/${id}/resume`);
  }

  async cancel(id: string): Promise<BatchView> {
    return await this.#steer(at`/v1/batches/${id}/cancel`);
  }

  async redrive(id: string): Promise<RedrivenBatch> {
    return await this.#link.json({ method: 'POST', path: at`/v1/batches/${id}/redrive` });
  }

  async *results(id: string, query: { readonly of?: BatchResults | undefined } = {}): AsyncGenerator<Uint8Array> {
    yield* bytesOf(this.#link, { path: at`/v1/batches/${id}/results`, query: { ...query } });
  }

  /** The server advances batches. */
  async advance(): Promise<Advancing> {
    return { countOpen: async () => 0, [Symbol.asyncDispose]: async () => {} };
  }

  async #steer(path: string): Promise<BatchView> {
    return await this.#link.json({ method: 'POST', path, isRepeatable: true });
  }
}
