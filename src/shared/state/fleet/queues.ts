import { Queue } from 'bullmq';
import type { RedisConnection } from '../connect.ts';
import { jobIdFor } from '../../base/ids.ts';
import { jobOptions, jobVersion, type JobKind } from '../../contract/run.ts';

/** The queues by name, opened on first use; one connection serves all of them. */
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

  /** Enqueues a segment of a run. The job id makes a repeat harmless. */
  async add(
    queue: string,
    run: { runId: string; kind: JobKind; segment: number },
    place: 'front' | 'back' = 'back',
  ): Promise<void> {
    await this.get(queue).add(
      run.kind,
      { v: jobVersion, ...run },
      { ...jobOptions, jobId: jobIdFor(run.runId, run.segment), ...(place === 'front' && { lifo: true }) },
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#queues.values()].map((queue) => queue.close()));
  }
}
