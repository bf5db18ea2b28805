import { Queue } from 'bullmq';
import { defined } from '../../base/collections.ts';
import { jobIdFor } from '../../base/ids.ts';
import { batchQueue, type BatchJob, batchJobVersion } from '../../contract/queues.ts';
import { jobOptions, jobVersion, type RunJob } from '../../contract/run.ts';
import type { RedisConnection } from '../connect.ts';

/** One segment of a run as a job. */
export type SegmentJob = Readonly<Pick<RunJob, 'kind' | 'runId' | 'segment'>>;

export interface JobPosition {
  readonly priority?: number | undefined;
  readonly delayMs?: number | undefined;
  /** Before everything that waits: the run has waited already. */
  readonly first?: boolean | undefined;
}

/** The BullMQ queues by name, opened on first use; one connection serves all of them. */
export class RunQueues implements AsyncDisposable {
  readonly #queues = new Map<string, Queue>();
  readonly #connection: RedisConnection;
  readonly #prefix: string;
  readonly #onError: (error: Error) => void;

  constructor(connection: RedisConnection, prefix: string, onError: (error: Error) => void) {
    this.#connection = connection;
    this.#prefix = prefix;
    this.#onError = onError;
  }

  get(name: string): Queue {
    const known = this.#queues.get(name);
    if (known) return known;
    const queue = new Queue(name, { connection: this.#connection, prefix: this.#prefix });
    queue.on('error', this.#onError);
    this.#queues.set(name, queue);
    return queue;
  }

  /** The queue after its first contact with Redis. One whose first contact fails stays broken, so it is forgotten. */
  async ready(name: string): Promise<Queue> {
    const queue = this.get(name);
    try {
      await queue.waitUntilReady();
      return queue;
    } catch (error) {
      if (this.#queues.get(name) === queue) this.#queues.delete(name);
      throw error;
    }
  }

  /** Enqueues a segment of a run. The job id makes a repeat harmless. */
  async add(queue: string, run: SegmentJob, position?: JobPosition): Promise<void> {
    const { name, data, opts } = jobOf(run, position);
    await this.get(queue).add(name, data, opts);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const open = [...this.#queues.values()];
    this.#queues.clear();
    await Promise.allSettled(open.map((queue) => queue.close()));
  }
}

/** A segment of a run as BullMQ takes it. */
export function jobOf({ kind, runId, segment }: SegmentJob, { priority, delayMs, first }: JobPosition = {}) {
  const lifo = first ? true : undefined;
  const opts = defined({ ...jobOptions, jobId: jobIdFor(runId, segment), priority, delay: delayMs, lifo });
  return { name: kind, data: { v: jobVersion, kind, runId, segment }, opts };
}

/** Attempts are for a lost Redis: a batch whose job has failed gets another one. An ended job is removed. */
const batchJobOptions = {
  attempts: 10,
  backoff: { type: 'exponential', delay: 1_000, jitter: 0.5 },
  removeOnComplete: true,
  removeOnFail: true,
};

/** A stay of a batch on a process as BullMQ takes it. The job id makes a repeat harmless. */
export function batchJobOf({ batchId, job }: Pick<BatchJob, 'batchId' | 'job'>) {
  const data: BatchJob = { v: batchJobVersion, kind: 'batch', batchId, job };
  return { queue: batchQueue, name: 'batch', data, opts: { ...batchJobOptions, jobId: `${batchId}-${job}` } };
}
