import { z } from 'zod';
import { systemClock } from '../../../shared/base/clock.ts';
import { defined } from '../../../shared/base/collections.ts';
import { RunError } from '../../../shared/base/errors.ts';
import { newRunId, publicId, runIdForExecution } from '../../../shared/base/ids.ts';
import { canonicalJson, jsonText } from '../../../shared/base/json.ts';
import { parseAs } from '../../../shared/base/problems.ts';
import {
  batchId,
  batchRequest,
  windowMs,
  type BatchRequest,
  type BatchRequestInput,
  type BatchStatus,
  type BatchView,
} from '../../../shared/contract/batch.ts';
import { isEndedBatch } from '../../../shared/contract/plain/batch-ends.ts';
import { batchViewOf, type BatchRecord } from '../../../shared/contract/batch-record.ts';
import { newFileId } from '../../../shared/contract/files.ts';
import { budgetCap } from '../../../shared/contract/money.ts';
import {
  maxOpenBatches,
  redisBatches,
  type BatchStore,
  type BatchWithOpen,
} from '../../../shared/state/batch/batches.ts';
import { type FileInfo, noSuchFile } from '../../../shared/state/files/files.ts';
import type { ClientFor } from '../../batch/advance/consumer.ts';
import { noteDeed } from '../audit/note-deed.ts';
import type { Budgets } from '../budgets.ts';
import { reach, type TenantClient } from '../client-core.ts';
import { stoppable } from '../stop-signal.ts';
import { resultsOf } from './results.ts';
import type {
  AdvanceOptions,
  Advancing,
  Batches,
  BatchResults,
  BatchesPage,
  BatchesQuery,
  CreateBatchOptions,
  RedrivenBatch,
} from './batches.ts';

const eventsMs = 1_000;

const batchResults: z.ZodType<BatchResults> = z.enum(['all', 'answers', 'errors']);

const listQuery = z.strictObject({
  after: z.string().optional(),
  limit: z.int().min(1).max(100).default(20),
});

/** Batches in Redis. */
export class RedisBatches implements Batches {
  readonly #client: TenantClient;
  readonly #budgets: Budgets;
  readonly #clientFor: ClientFor;

  constructor(client: TenantClient, budgets: Budgets, clientFor: ClientFor) {
    this.#client = client;
    this.#budgets = budgets;
    this.#clientFor = clientFor;
  }

  async create(input: BatchRequestInput, options: CreateBatchOptions = {}): Promise<BatchView> {
    const request = parseAs(batchRequest, input, 'the batch is not valid');
    const { tenant, core } = this.#client;
    const { idempotencyKey, repeat } = options;
    const key = parseAs(publicId.optional(), idempotencyKey, 'the idempotency key is not valid');
    const made = key === undefined ? newRunId(Date.now()) : runIdForExecution(tenant, `batch:${key}`);
    const id = `batch_${made}`;
    const known = await this.#knownAs(id, repeat);
    if (known) return await this.#repeated(known, request);
    const record = await this.#recordOf(id, request);
    await this.#setBudget(record);
    const created = await this.#reach((store) => store.create(record));
    if (created === 'full') {
      const message = `${maxOpenBatches} batches are open: wait until some have ended`;
      throw new RunError('queue_full', message, { details: { limit: 'batches', retryAfterS: 60 } });
    }
    if (created === 'exists') return await this.#repeated(await this.#load(id), request);
    await core.queues.addBatch(id, 1);
    return await this.get(id);
  }

  async get(id: string): Promise<BatchView> {
    return viewOf(await this.#load(id));
  }

  async list(input: BatchesQuery = {}): Promise<BatchesPage> {
    const { after, limit } = parseAs(listQuery, defined(input), 'the query is not valid');
    const page = await this.#reach((store) => store.list(this.#client.tenant, limit, after));
    if (!page) throw new RunError('validation', 'after: names no batch of this list');
    return { data: page.found.map(viewOf), has_more: page.hasMore };
  }

  events(id: string, { signal }: { readonly signal?: AbortSignal | undefined } = {}): AsyncIterable<BatchView> {
    const { core } = this.#client;
    const read = () => this.get(id);
    return stoppable([signal, core.closing], async function* (stop) {
      let shown = '';
      for (;;) {
        const view = await core.patiently(read, stop);
        const { eta: _, ...facts } = view;
        const text = jsonText(facts);
        if (text !== shown) yield view;
        shown = text;
        if (isEndedBatch(view.status)) return;
        await systemClock.sleep(eventsMs, stop);
      }
    });
  }

  async pause(id: string): Promise<BatchView> {
    const own = (await this.#load(id)).record.id;
    const before = await this.#reach((store) => store.pause(own));
    refuseEnding(own, before, ['quoted']);
    if (before !== 'paused') await this.#note('paused', own);
    return await this.get(own);
  }

  async resume(id: string): Promise<BatchView> {
    const own = (await this.#load(id)).record.id;
    const resumed = await this.#reach((store) => store.resume(own, Date.now()));
    refuseEnding(own, resumed?.before);
    await this.#addJob(own, resumed?.job);
    if (resumed?.before === 'paused') await this.#note('resumed', own);
    return await this.get(own);
  }

  async cancel(id: string): Promise<BatchView> {
    const own = (await this.#load(id)).record.id;
    const cancelled = await this.#reach((store) => store.cancel(own, Date.now()));
    if (cancelled?.before !== 'cancelling') refuseEnding(own, cancelled?.before);
    await this.#addJob(own, cancelled?.job);
    return await this.get(own);
  }

  async redrive(id: string): Promise<RedrivenBatch> {
    const { tenant, core } = this.#client;
    const { record } = await this.#load(id);
    const now = Date.now();
    const file = await core.files.store.info(tenant, record.request.input_file_id);
    if (!file) throw noSuchFile(record.request.input_file_id);
    if (record.outputFileId !== undefined && !(await core.files.store.info(tenant, record.outputFileId)))
      throw noSuchFile(record.outputFileId);
    const files = { outputId: newFileId(now), errorId: newFileId(now), expiresAt: expiryOf(record.request, file, now) };
    const redriven = await this.#reach((store) => store.redrive(record, files, now));
    const busy: readonly (BatchStatus | undefined)[] = ['failed', 'validating', 'finalizing', 'cancelling'];
    if (busy.includes(redriven?.before)) refuseNow(record.id, redriven?.before);
    await this.#addJob(record.id, redriven?.job);
    // It was listed as open before it was known whether anything is to be done.
    const batch = await this.get(record.id);
    if (isEndedBatch(batch.status)) await this.#reach((store) => store.unlist(record.id, tenant));
    return { batch, lines: redriven?.lines ?? 0 };
  }

  async *results(
    id: string,
    { of = 'all' }: { readonly of?: BatchResults | undefined } = {},
  ): AsyncGenerator<Uint8Array> {
    const kind = parseAs(batchResults, of, 'the query is not valid');
    const own = (await this.#load(id)).record.id;
    const found = await this.#reach((store) => store.withOutput(own));
    if (!found) throw noSuchBatch(id);
    yield* resultsOf(found, kind, this.#client.core.files.store);
  }

  async advance(options: AdvanceOptions = {}): Promise<Advancing> {
    const { advanceBatches } = await import('../../batch/advance/consumer.ts');
    return advanceBatches(this.#client.core, this.#clientFor, options);
  }

  async #reach<T>(work: (store: BatchStore) => Promise<T>): Promise<T> {
    return await reach(this.#client, ({ core, redis }) => work(redisBatches({ redis, keys: core.keys })));
  }

  async #load(id: string): Promise<BatchWithOpen> {
    const found = batchId.safeParse(id).success ? await this.#reach((store) => store.loadWithOpen(id)) : undefined;
    if (found?.record.tenant !== this.#client.tenant) throw noSuchBatch(id);
    return found;
  }

  async #note(change: 'paused' | 'resumed', batchId: string): Promise<void> {
    await reach(this.#client, (at) => noteDeed(at, { kind: 'pause', change, batchId }));
  }

  async #addJob(id: string, job: number | undefined): Promise<void> {
    // Should this fail, the sweep finds the batch.
    if (job !== undefined) await this.#client.core.queues.addBatch(id, job);
  }

  /** The batch that the same request has made before, where that can be known. */
  async #knownAs(id: string, repeat: CreateBatchOptions['repeat']): Promise<BatchWithOpen | undefined> {
    if (!repeat) return undefined;
    const { tenant } = this.#client;
    if (!repeat.isRepeat) {
      await this.#reach((store) => store.asked(tenant, repeat.digest, id));
      return undefined;
    }
    const before = await this.#reach((store) => store.askedBefore(tenant, repeat.digest, id));
    return before === id ? undefined : await this.#reach((store) => store.loadWithOpen(before));
  }

  async #repeated(found: BatchWithOpen, request: BatchRequest): Promise<BatchView> {
    if (canonicalJson(found.record.request) === canonicalJson(request)) return viewOf(found);
    throw new RunError('idempotency_conflict', 'the idempotency key was used before for another batch');
  }

  async #recordOf(id: string, request: BatchRequest): Promise<BatchRecord> {
    const { core, tenant, rights, requestId } = this.#client;
    const file = await core.files.store.info(tenant, request.input_file_id);
    if (!file) throw noSuchFile(request.input_file_id);
    if (file.purpose !== 'batch')
      throw new RunError('validation', `input_file_id: the purpose of the file is ${file.purpose}, not batch`);
    const agent = request.endpoint === '/v1/runs' ? request.agent : undefined;
    const { queue } = request;
    const answerFields = await reach(this.#client, async ({ redis }) => {
      if (queue !== undefined) await core.directory.check(queue, redis);
      if (agent === undefined) return [];
      await core.agents.check(agent, redis);
      return (await core.agents.list(redis)).find(({ id: known }) => known === agent)?.answerFields ?? [];
    });
    const now = Date.now();
    const name = request.endpoint === '/v1/runs' ? (request.name ?? id) : id;
    return {
      ...newRecord(now),
      id,
      tenant,
      rights,
      requestId,
      request,
      filename: file.filename,
      answerFields,
      name,
      maxOpen: request.maxOpen,
      maxFailures: String(request.maxFailures ?? ''),
      expiresAt: expiryOf(request, file, now),
    };
  }

  /** A caller without the rights of an operator gives no account more than it has. */
  async #setBudget({ id, name, request, rights }: BatchRecord): Promise<void> {
    const { budget } = request;
    if (!budget) return;
    if (name !== id && rights === 'caller') {
      const { capMicrocents } = await this.#budgets.get('batch', name);
      if (capMicrocents !== undefined && capMicrocents < (budgetCap(budget) ?? 0))
        throw new RunError('forbidden', `the batch ${name} has a budget: an operator may raise it`);
    }
    await this.#budgets.set('batch', name, defined(budget));
  }
}

function noSuchBatch(id: string): RunError {
  return new RunError('not_found', `there is no batch ${id.slice(0, 64)}`);
}

function viewOf({ record, open }: BatchWithOpen): BatchView {
  return batchViewOf(record, open, Date.now());
}

function newRecord(now: number) {
  return {
    status: 'validating',
    reason: '',
    round: 0,
    createdAt: now,
    since: now,
    failures: 0,
    total: 0,
    bytes: 0,
    completed: 0,
    failed: 0,
    costMicrocents: 0,
    inputTokens: 0,
    outputTokens: 0,
    waitingForMoney: 0,
    waitingForPeople: 0,
    outputBytes: 0,
    errorBytes: 0,
    jobs: '1',
    stay: '',
    outputId: newFileId(now),
    errorId: newFileId(now),
    answerBytes: 0,
  } satisfies Partial<BatchRecord>;
}

/** A batch cannot outlive its file. */
function expiryOf({ completion_window }: BatchRequest, { expires_at = Infinity }: FileInfo, now: number): number {
  return Math.min(now + windowMs(completion_window), expires_at * 1_000);
}

function refuseEnding(id: string, before: BatchStatus | undefined, also: readonly BatchStatus[] = []): void {
  if (before === undefined) throw new RunError('not_found', `there is no batch ${id}`);
  const ends = before === 'finalizing' || before === 'cancelling';
  if (ends || isEndedBatch(before) || also.includes(before)) refuseNow(id, before);
}

function refuseNow(id: string, status: BatchStatus | undefined): never {
  throw new RunError('already_terminal', `batch ${id} is ${status}: that cannot be done now`);
}
