import { UnrecoverableError, WaitingError, Worker, type Job } from 'bullmq';
import type { Log } from '../../shared/base/log.ts';
import { postrunJob, type PostrunJob } from '../../shared/contract/postrun.ts';
import type { RedisConnection } from '../../shared/state/connect.ts';

export interface PostRunConsumerOptions {
  readonly connection: RedisConnection;
  readonly bullPrefix: string;
  readonly queues: readonly string[];
  readonly worker: string;
  readonly lockDurationMs: number;
  readonly stalledIntervalMs: number;
  readonly log: Log;
  run(
    job: PostrunJob,
    delivery: { readonly isRepeat: boolean; readonly isLast: boolean },
    signal: AbortSignal,
  ): Promise<void>;
}

/** At once in one process. Few: the runs of the process come first. */
const concurrency = 4;
/** A job that loses its worker so often fails. */
const maxStalledCount = 2;
const longestGraceMs = 10_000;

/** Takes post-run jobs, from queues of their own so that no run waits for them. */
export class PostRunConsumer {
  readonly #options: PostRunConsumerOptions;
  readonly #workers: readonly Worker[];
  readonly #calls = new Map<AbortController, Promise<unknown>>();
  #stopping = false;

  constructor(options: PostRunConsumerOptions) {
    this.#options = options;
    this.#workers = options.queues.map((queue) => this.#openWorker(queue));
  }

  async start(): Promise<void> {
    await Promise.all(this.#workers.map((worker) => worker.waitUntilReady()));
    for (const worker of this.#workers)
      worker.run().catch((err: unknown) => this.#options.log.error({ err, queue: worker.name }, 'fetch loop ended'));
  }

  /** Stops fetching, and lets started jobs end within `graceMs`, at most 10 s; the others are returned to their queue. */
  async stop(graceMs: number): Promise<void> {
    this.#stopping = true;
    await Promise.all(this.#workers.map((worker) => worker.pause(true)));
    const cut = setTimeout(
      () => {
        for (const call of this.#calls.keys()) call.abort(new Error('the worker is shutting down'));
      },
      Math.min(graceMs, longestGraceMs),
    );
    await Promise.allSettled(this.#calls.values());
    clearTimeout(cut);
    await Promise.all(this.#workers.map((worker) => worker.close()));
  }

  #openWorker(queue: string): Worker {
    const { connection, bullPrefix, worker: name, lockDurationMs, stalledIntervalMs, log } = this.#options;
    const process = (job: Job, token: string | undefined, lost: AbortSignal | undefined) =>
      this.#process(job, token, lost);
    const worker = new Worker(queue, process, {
      connection,
      prefix: bullPrefix,
      name,
      concurrency,
      autorun: false,
      lockDuration: lockDurationMs,
      stalledInterval: stalledIntervalMs,
      maxStalledCount,
      runRetryDelay: 1_000,
    });
    worker.on('lockRenewalFailed', (jobIds) => {
      for (const id of jobIds) worker.cancelJob(id, 'lock lost');
    });
    worker.on('error', (err) => log.debug({ err, queue }, 'queue error'));
    return worker;
  }

  async #process(job: Job, token: string | undefined, lost: AbortSignal | undefined): Promise<void> {
    const parsed = postrunJob.safeParse(job.data);
    if (!parsed.success) throw new UnrecoverableError('validation: not a post-run job');
    const call = new AbortController();
    lost?.addEventListener('abort', () => call.abort(lost.reason), { once: true });
    const delivery = {
      isRepeat: job.attemptsStarted > 1,
      isLast: job.attemptsMade + 1 >= (job.opts.attempts ?? 1),
    };
    const done = this.#stopping
      ? Promise.reject(new Error('the worker is shutting down'))
      : this.#options.run(parsed.data, delivery, call.signal);
    this.#calls.set(call, done);
    try {
      await done;
    } catch (error) {
      if (!this.#stopping || lost?.aborted) throw error;
      await job.moveToWait(token);
      throw new WaitingError();
    } finally {
      this.#calls.delete(call);
    }
  }
}
