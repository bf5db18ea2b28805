import { RunError, type ErrorInfo } from '../../shared/base/errors.ts';
import { Quotas } from './accept/admission.ts';
import { jobIdFor } from '../../shared/base/ids.ts';
import type { RedisConnection } from '../../shared/state/connect.ts';
import type { RunStatus } from '../../shared/contract/run.ts';
import { batchQueue } from '../../shared/contract/queues.ts';
import type { batchJobOf, jobOf, JobPosition, RunQueues, SegmentJob } from '../../shared/state/fleet/queues.ts';

/** A run that was accepted. */
export interface Accepted {
  readonly runId: string;
  readonly status: RunStatus;
  readonly attached: boolean;
  /** What the caller should know about it: that no live worker serves its queue. */
  readonly warnings: readonly string[];
}

/** What `enqueueMany` answers for one request. */
export type BulkAnswer = Accepted | { readonly error: ErrorInfo };

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

/** A job, and where it goes. */
export interface JobToAdd extends SegmentJob, JobPosition {
  readonly queue: string;
}

const retryAfterS = 5;

interface Loaded {
  readonly queues: RunQueues;
  readonly jobOf: typeof jobOf;
  readonly batchJobOf: typeof batchJobOf;
}

/** The queues of a client. BullMQ is loaded when the first is asked for: clients that only read runs do without it. */
export class JobQueues {
  readonly #load: () => Promise<Loaded>;
  #loaded: Promise<Loaded> | undefined;
  readonly quotas = new Quotas();

  constructor(redis: RedisConnection, prefix: string, onError: (error: Error) => void) {
    this.#load = async () => {
      const { batchJobOf, jobOf, RunQueues } = await import('../../shared/state/fleet/queues.ts');
      return { queues: new RunQueues(redis, prefix, onError), jobOf, batchJobOf };
    };
  }

  /** Counts one more job of a queue, or throws `queue_full`. */
  async takeQuota(name: string, maxLength: number): Promise<void> {
    const queued = async () => {
      const { waiting, delayed } = await this.depth(name);
      return waiting + delayed;
    };
    if (await this.quotas.take(`queue ${name}`, maxLength, queued)) return;
    throw new RunError('queue_full', `queue ${name} is full`, { details: { limit: 'queue', retryAfterS } });
  }

  /** Adds a job. The job id is the run's segment, so that a repeat changes nothing. */
  async add(job: JobToAdd): Promise<void> {
    const { queues, jobOf } = await this.#ready();
    const queue = await queues.ready(job.queue);
    const { name, data, opts } = jobOf(job, job);
    await queue.add(name, data, opts);
  }

  /** Adds jobs in one round trip per queue. */
  async addMany(jobs: readonly JobToAdd[]): Promise<void> {
    const [only] = jobs;
    if (only && jobs.length === 1) return await this.add(only);
    const { queues, jobOf } = await this.#ready();
    for (const [name, group] of Map.groupBy(jobs, (job) => job.queue)) {
      const queue = await queues.ready(name);
      await queue.addBulk(group.map((job) => jobOf(job, job)));
    }
  }

  /** Adds a job for a batch. */
  async addBatch(batchId: string, job: number): Promise<void> {
    const { queues, batchJobOf: jobFor } = await this.#ready();
    const { queue, name, data, opts } = jobFor({ batchId, job });
    await (await queues.ready(queue)).add(name, data, opts);
  }

  /** Will a process still get this job of a batch, or has it? */
  async hasBatch(batchId: string, job: number): Promise<boolean> {
    const { queues, batchJobOf: jobFor } = await this.#ready();
    const { queue, opts } = jobFor({ batchId, job });
    return (await (await queues.ready(queue)).getJobState(opts.jobId)) !== 'unknown';
  }

  /** Batches whose job waits for a process. */
  async waitingBatches(): Promise<number> {
    return (await this.depth(batchQueue)).waiting;
  }

  /** Removes the job of a segment unless a worker has it. Answers whether it is gone. */
  async remove(name: string, runId: string, segment: number): Promise<boolean> {
    const queue = await this.#queue(name);
    return (await queue.remove(jobIdFor(runId, segment))) === 1;
  }

  /** Will a worker still get this job? */
  async isPending(name: string, runId: string, segment: number): Promise<boolean> {
    const state = await (await this.#queue(name)).getJobState(jobIdFor(runId, segment));
    return state !== 'unknown' && state !== 'completed' && state !== 'failed';
  }

  async depth(name: string): Promise<QueueDepth> {
    const queue = await this.#queue(name);
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
    await (await this.#loaded)?.queues[Symbol.asyncDispose]();
  }

  async #queue(name: string) {
    const { queues } = await this.#ready();
    return await queues.ready(name);
  }

  #ready() {
    return (this.#loaded ??= this.#load());
  }
}
