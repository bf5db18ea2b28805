import { UnrecoverableError, WaitingError, Worker, type Job } from 'bullmq';
import { problemsOf } from '../../../shared/base/problems.ts';
import { repeat, systemClock } from '../../../shared/base/clock.ts';
import { orLate } from '../../../shared/base/deadline.ts';
import { asRunError, RunError } from '../../../shared/base/errors.ts';
import { newNonce } from '../../../shared/base/ids.ts';
import type { BatchRecord } from '../../../shared/contract/batch-record.ts';
import { batchJob, batchQueue, type BatchJob } from '../../../shared/contract/queues.ts';
import { bullPrefix } from '../../../shared/state/keys.ts';
import { redisBatches } from '../../../shared/state/batch/batches.ts';
import { redisFleet, type WorkerInfo } from '../../../shared/state/fleet/fleet.ts';
import type { AdvanceOptions, Advancing } from '../../client/batches/batches.ts';
import type { ClientCore } from '../../client/client-core.ts';
import type { Operations } from '../../client/operations.ts';
import { erasedLines } from '../../../shared/state/erasure/erased-lines.ts';
import type { AdvancePorts, BatchClient } from './own-batch.ts';
import { advanceBatch } from './stay.ts';
import { sweepBatches } from './sweep.ts';

/** Batches that one process advances at once. */
const defaultAtOnce = 4;
const defaultTurnMs = 60_000;
const heartbeatMs = 5_000;
/** A process that is closed waits no longer than this for its stays. */
const closeMs = 3_000;

/** The client of a tenant, with rights and the id of a request. */
export type ClientFor = (record: Pick<BatchRecord, 'tenant' | 'rights' | 'requestId'>) => Operations;

/**
 * Advances batches of all tenants until it is disposed: takes jobs of the queue `batches`, and looks for batches without one. Begins
 * in the background, also while Redis is away. Disposed, it lets its batches go to other processes, within 5 seconds.
 */
export function advanceBatches(core: ClientCore, clientFor: ClientFor, options: AdvanceOptions): Advancing {
  const { atOnce = defaultAtOnce, lockDurationMs = 15_000, stalledIntervalMs = 5_000 } = options;
  const onNews = options.onNews ?? (() => {});
  const redis = core.connect('blocking');
  const ports = portsOf(core, redis, clientFor, options);
  const name = `batches-${process.pid}-${newNonce().slice(0, 6)}`;
  const stays = new Map<AbortController, Promise<unknown>>();
  let closing = false;

  const work = async (job: Job, token?: string, signal?: AbortSignal): Promise<unknown> => {
    const parsed = batchJob.safeParse(job.data);
    if (!parsed.success) throw new UnrecoverableError(`validation: ${problemsOf(parsed.error, 'the job').join('; ')}`);
    const stop = new AbortController();
    signal?.addEventListener('abort', () => stop.abort(new RunError('lock_lost', 'the lock of the job was lost')), {
      once: true,
    });
    const stay = closing ? Promise.reject(closed) : advance(parsed.data, stop.signal);
    stays.set(stop, stay);
    try {
      return await stay;
    } catch (error) {
      if (!closing || signal?.aborted) {
        onNews({ kind: 'failed', batchId: parsed.data.batchId, error });
        throw error;
      }
      await job.moveToWait(token);
      throw new WaitingError();
    } finally {
      stays.delete(stop);
    }
  };
  const advance = async (job: BatchJob, signal: AbortSignal): Promise<string> => {
    const end = await advanceBatch(job, ports, signal);
    if (end !== 'yielded') return end;
    const next = await ports.store.nextJob(job.batchId, String(job.job));
    if (next !== undefined) await core.queues.addBatch(job.batchId, next);
    return end;
  };

  const worker = new Worker(batchQueue, work, {
    connection: redis,
    prefix: bullPrefix(core.prefix, core.cluster),
    name,
    autorun: false,
    concurrency: atOnce,
    lockDuration: lockDurationMs,
    stalledInterval: stalledIntervalMs,
    maxStalledCount: 1_000_000,
    runRetryDelay: 1_000,
    removeOnComplete: { count: 0 },
    removeOnFail: { count: 0 },
  });
  worker.on('error', core.onError);
  worker.on('lockRenewalFailed', (jobIds) => {
    for (const id of jobIds) worker.cancelJob(id, 'lock lost');
  });
  const began = worker
    .waitUntilReady()
    .then(() => {
      if (!closing) void worker.run().catch(core.onError);
    })
    .catch(core.onError);
  const heartbeat = async () => {
    await ports.store.heartbeat(name, systemClock.now());
    await sweepBatches(ports, core.queues);
  };
  void heartbeat().catch(core.onError);
  const beating = repeat(heartbeatMs, heartbeat, (error) => core.onError(asRunError(error)));

  return {
    countOpen: () => ports.store.countOpen(),
    async [Symbol.asyncDispose]() {
      closing = true;
      const done = async () => {
        await beating[Symbol.asyncDispose]();
        await began;
        await worker.pause(true);
        for (const stop of stays.keys()) stop.abort(closed);
        await Promise.allSettled(stays.values());
        await ports.store.farewell(name);
        await worker.close();
      };
      await orLate(closeMs, done().catch(core.onError), () => {});
      redis.disconnect();
    },
  };
}

const closed = new RunError('worker_lost', 'the process is shutting down');

function portsOf(
  core: ClientCore,
  redis: ReturnType<ClientCore['connect']>,
  clientFor: ClientFor,
  { turnMs = defaultTurnMs, onNews = () => {} }: AdvanceOptions,
): AdvancePorts {
  const space = { redis, keys: core.keys };
  return {
    store: redisBatches(space),
    files: core.files.store,
    erasedLines: (id) => erasedLines(space, id),
    clock: systemClock,
    clientFor: (record) => batchClientOf(clientFor(record)),
    async roomOf(queue) {
      const workers = (await redisFleet(space).liveWorkers()).filter(({ queues }) => queues.includes(queue));
      const { waiting } = await core.queues.depth(queue);
      const slots = workers.reduce((sum, { concurrency }) => sum + concurrency, 0);
      const rates = {
        requestsPerMinute: rateOf(workers, 'requestsPerMinute'),
        tokensPerMinute: rateOf(workers, 'tokensPerMinute'),
      };
      return { slots: slots === 0 ? undefined : slots, waiting, ...rates };
    },
    othersWait: async () => (await core.queues.waitingBatches()) > 0,
    turnMs,
    onStatus: (record, before) => onNews({ kind: 'status', record, before }),
    onLine: (end) => onNews({ kind: 'line', end }),
  };
}

/** Limits are the fleet's: a provider that several workers have counts once. */
function rateOf(
  workers: readonly Pick<WorkerInfo, 'providers'>[],
  rate: 'requestsPerMinute' | 'tokensPerMinute',
): number | undefined {
  const limits = new Map(
    workers.flatMap(({ providers }) => providers.map((provider) => [provider.id, provider[rate]] as const)),
  );
  const known = [...limits.values()].filter((limit) => limit !== undefined);
  return known.length === 0 || known.length < limits.size ? undefined : known.reduce((sum, limit) => sum + limit, 0);
}

function batchClientOf(operations: Operations): BatchClient {
  return {
    firehose: ({ signal }) => operations.firehose(signal),
    get: (runId) => operations.get(runId),
    result: (runId, options) => operations.result(runId, options),
    enqueueMany: (requests) => operations.acceptMany(requests),
    cancel: (runId) => operations.cancel(runId, {}),
    redrive: (request) => operations.redrive(request),
  };
}
