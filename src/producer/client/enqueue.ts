import { defined } from '../../shared/base/defined.ts';
import { Queue, type JobsOptions } from 'bullmq';
import { RunError, type ErrorInfo } from '../../shared/base/errors.ts';
import { Quotas } from './accept/admission.ts';
import { jobIdFor } from '../../shared/base/ids.ts';
import type { RedisConnection } from '../../shared/state/connect.ts';
import { jobOptions, jobVersion, type JobKind, type RunStatus } from '../../shared/contract/run.ts';

/** What `enqueueMany` answers for one request. */
export type BulkAnswer =
  | {
      readonly runId: string;
      readonly status: RunStatus;
      readonly attached: boolean;
      /** What the caller should know about a run that was accepted: that no live worker serves its queue. */
      readonly warnings: readonly string[];
    }
  | { readonly error: ErrorInfo };

/** Jobs of one queue by state. `waiting` includes those with a priority. */
export interface QueueDepth {
  readonly waiting: number;
  readonly active: number;
  readonly delayed: number;
  readonly failed: number;
}

/** A queue with the number of live workers that serve it. */
export interface QueueState extends QueueDepth {
  readonly workers: number;
}

/** One segment of a run as a job. */
export interface JobToAdd {
  readonly queue: string;
  readonly kind: JobKind;
  readonly runId: string;
  readonly segment: number;
  readonly priority: number | undefined;
  readonly delayMs: number | undefined;
  /** Goes before everything that waits: the run has waited already. */
  readonly first?: boolean;
}

const retryAfterS = 5;

/** The BullMQ queues of a client, opened on first use. The only place of the producer that knows BullMQ. */
export class JobQueues {
  readonly #redis: RedisConnection;
  readonly #prefix: string;
  readonly #onError: (error: Error) => void;
  readonly #queues = new Map<string, Promise<Queue>>();
  readonly quotas = new Quotas();

  constructor(redis: RedisConnection, prefix: string, onError: (error: Error) => void) {
    this.#redis = redis;
    this.#prefix = prefix;
    this.#onError = onError;
  }

  /** Takes one place in a queue or throws `queue_full`. */
  async takeQuota(name: string, maxLength: number): Promise<void> {
    if (await this.quotas.take(`queue ${name}`, maxLength, () => this.#waiting(name))) return;
    throw new RunError('queue_full', `queue ${name} is full`, { details: { limit: 'queue', retryAfterS } });
  }

  /** Adds a job. The job id is the run's segment, so that a repeat changes nothing. */
  async add(job: JobToAdd): Promise<void> {
    const queue = await this.#open(job.queue);
    await queue.add(job.kind, dataOf(job), optionsOf(job));
  }

  /** Adds jobs in one round trip per queue. */
  async addMany(jobs: readonly JobToAdd[]): Promise<void> {
    for (const [name, group] of Map.groupBy(jobs, (job) => job.queue)) {
      const queue = await this.#open(name);
      await queue.addBulk(group.map((job) => ({ name: job.kind, data: dataOf(job), opts: optionsOf(job) })));
    }
  }

  /** Removes the job of a segment unless a worker holds it. Answers whether it is gone. */
  async remove(name: string, runId: string, segment: number): Promise<boolean> {
    const queue = await this.#open(name);
    return (await queue.remove(jobIdFor(runId, segment))) === 1;
  }

  /** Will this job still be given to a worker? */
  async isPending(name: string, runId: string, segment: number): Promise<boolean> {
    const state = await (await this.#open(name)).getJobState(jobIdFor(runId, segment));
    return state !== 'unknown' && state !== 'completed' && state !== 'failed';
  }

  async depth(name: string): Promise<QueueDepth> {
    const queue = await this.#open(name);
    const counts = await queue.getJobCounts('waiting', 'prioritized', 'active', 'delayed', 'failed');
    const of = (state: string) => counts[state] ?? 0;
    return {
      waiting: of('waiting') + of('prioritized'),
      active: of('active'),
      delayed: of('delayed'),
      failed: of('failed'),
    };
  }

  async close(): Promise<void> {
    const open = await Promise.allSettled(this.#queues.values());
    this.#queues.clear();
    await Promise.allSettled(open.filter((queue) => queue.status === 'fulfilled').map((queue) => queue.value.close()));
  }

  async #waiting(name: string): Promise<number> {
    const { waiting, delayed } = await this.depth(name);
    return waiting + delayed;
  }

  /**
   * A queue whose first contact with Redis fails stays broken for good, so it is only made on a live connection (the
   * caller has seen to that) and forgotten when it still fails.
   */
  async #open(name: string): Promise<Queue> {
    const known = this.#queues.get(name);
    if (known) return await known;
    const opened = openQueue(name, this.#redis, this.#prefix, this.#onError);
    this.#queues.set(name, opened);
    try {
      return await opened;
    } catch (error) {
      if (this.#queues.get(name) === opened) this.#queues.delete(name);
      throw error;
    }
  }
}

async function openQueue(
  name: string,
  redis: RedisConnection,
  prefix: string,
  onError: (error: Error) => void,
): Promise<Queue> {
  const queue = new Queue(name, { connection: redis, prefix });
  queue.on('error', onError);
  await queue.waitUntilReady();
  return queue;
}

function dataOf({ kind, runId, segment }: JobToAdd) {
  return { v: jobVersion, kind, runId, segment };
}

function optionsOf({ runId, segment, priority, delayMs, first }: JobToAdd): JobsOptions {
  return defined({
    ...jobOptions,
    jobId: jobIdFor(runId, segment),
    priority,
    delay: delayMs,
    lifo: first ? true : undefined,
  });
}
