import { problemsOf } from '../../shared/base/problems.ts';
import { UnrecoverableError, WaitingError, type Job, type Processor, type Worker } from 'bullmq';
import { assertNever, RunError } from '../../shared/base/errors.ts';
import { quarantineQueue } from '../../shared/contract/queues.ts';
import type { WorkingOn } from '../../shared/state/fleet/fleet.ts';
import { jobOptions, runJobSchema, type RunJob } from '../../shared/contract/run.ts';
import type { RunDeps } from '../run/run-context.ts';
import type { JobOutcome } from '../run/outcome.ts';
import { runJob } from '../run/run-job.ts';
import { fetchLoop, startLoops, stopLoops, type QueueSettings } from './fetch-loops.ts';

/**
 * With so many crashes in a row, or so much blame in all, a run is moved to quarantine. A run that kills its process in a call
 * gets one blame for the first worker and two for each that dies while it is watched: it takes three workers down. Two
 * unlucky kills, or crashes of other runs, are not enough.
 */
const commonLimits = { crashLimit: 4, blameLimit: 5 } as const;
/** In quarantine each run has a process to itself: after two more lost ones it fails. */
const quarantineLimits = { crashLimit: 6, blameLimit: 9 } as const;

export interface ConsumerOptions extends QueueSettings {
  readonly queues: readonly string[];
  readonly concurrency: number;
  readonly deps: Omit<RunDeps, 'stopping'>;
  /** Moves a run that keeps killing workers into the quarantine queue. */
  quarantine(job: RunJob): Promise<void>;
  /** Ends a run that kept killing workers in quarantine, too. */
  abandon(run: Pick<RunJob, 'runId' | 'segment'>): Promise<void>;
}

/**
 * Takes run jobs from the queues, one processor call per delivery, and reports to BullMQ how each ended. Neutralises BullMQ's
 * own stalled limit: it would fail innocent neighbours of a run that crashes the process.
 */
export class Consumer {
  readonly #options: ConsumerOptions;
  readonly #leases: Leases;
  readonly #workers: Worker[];
  readonly #slots = new Map<string, Promise<unknown>>();
  /** Stops each processor call. Not one shared signal: combining a signal that lives as long as the process with short ones
   * keeps memory for every call. */
  readonly #calls = new Map<AbortController, WorkingOn>();
  #stopping = false;
  /** Queues whose fetch loop has failed within the last second. */
  readonly #backingOff = new Set<Worker>();

  constructor(options: ConsumerOptions) {
    this.#options = options;
    this.#leases = new Leases(options.lockDurationMs);
    this.#workers = options.queues.map((queue) => this.#openWorker(queue));
  }

  /** Processor calls in progress. */
  get active(): number {
    return this.#calls.size;
  }

  /** The runs that they work on, longest first. */
  get runs(): readonly WorkingOn[] {
    return [...this.#calls.values()];
  }

  /** Is every fetch loop alive? What the liveness probe asks. */
  get running(): boolean {
    return this.#stopping || this.#workers.every((worker) => worker.isRunning());
  }

  async start(): Promise<void> {
    await startLoops(this.#workers, this.#options);
  }

  /**
   * Stops fetching and lets every run reach its next commit; what still runs after `graceMs` is aborted and handed over
   * from its last one. Either way the jobs go to the front of the queue.
   */
  async stop(graceMs: number): Promise<void> {
    this.#stopping = true;
    const cut = () => {
      for (const call of this.#calls.keys()) call.abort(new RunError('worker_lost', 'the worker is shutting down'));
    };
    await stopLoops(this.#workers, graceMs, cut, () => Promise.all(this.#slots.values()));
    this.#leases[Symbol.dispose]();
  }

  #openWorker(queue: string): Worker {
    const process: Processor = (job, token, signal) => this.#process(queue, job, token, signal);
    const worker = fetchLoop(queue, process, this.#options, {
      concurrency: queue === quarantineQueue ? 1 : this.#options.concurrency,
      maxStalledCount: 1_000_000,
      removeOnComplete: jobOptions.removeOnComplete,
      removeOnFail: jobOptions.removeOnFail,
    });
    worker.on('locksRenewed', ({ jobIds }) => this.#leases.renewed(jobIds));
    worker.on('lockRenewalFailed', (jobIds) => {
      for (const id of jobIds) {
        this.#leases.lost(id);
        // Without this a zombie that ends later would take the lock tracking of the live delivery with it.
        worker.cancelJob(id, 'lock lost');
      }
    });
    worker.on('error', (error) => void this.#onWorkerError(worker, error));
    return worker;
  }

  async #process(queue: string, job: Job, token?: string, signal?: AbortSignal): Promise<unknown> {
    const data = this.#parse(job);
    if (this.#stopping) {
      // Fetched while stopping: nothing is claimed yet, so the job is returned unchanged.
      await job.moveToWait(token);
      throw new WaitingError();
    }
    const call = new AbortController();
    const lease = this.#leases.begin(job.id as string, call);
    signal?.addEventListener('abort', () => call.abort(new RunError('lock_lost', 'the lock of the job was lost')), {
      once: true,
    });
    this.#calls.set(call, { runId: data.runId, since: new Date().toISOString() });
    try {
      const outcome = await this.#inSlot(data.runId, () => this.#run(queue, job, data, call.signal));
      return await this.#verdict(outcome, queue, job, data, token);
    } finally {
      this.#calls.delete(call);
      lease.end();
    }
  }

  #parse(job: Job): RunJob {
    const parsed = runJobSchema.safeParse(job.data);
    if (!parsed.success) {
      throw new UnrecoverableError(`validation: ${problemsOf(parsed.error, 'the job').join('; ')}`);
    }
    if (parsed.data.kind === 'postrun') {
      throw new UnrecoverableError('validation: jobs of kind postrun belong to queues of their own');
    }
    return parsed.data;
  }

  /** A second delivery of a run in this process waits until the first, which has lost its lock, has settled. */
  async #inSlot<T>(runId: string, work: () => Promise<T>): Promise<T> {
    const before = this.#slots.get(runId);
    const mine = (async () => {
      await before?.catch(() => {});
      return await work();
    })();
    const settled = mine.catch(() => {});
    this.#slots.set(runId, settled);
    try {
      return await mine;
    } finally {
      if (this.#slots.get(runId) === settled) this.#slots.delete(runId);
    }
  }

  async #run(queue: string, job: Job, data: RunJob, stop: AbortSignal): Promise<JobOutcome> {
    const { deps, worker } = this.#options;
    const isAlone = queue === quarantineQueue;
    const limits = isAlone ? quarantineLimits : commonLimits;
    const activity = isAlone ? ('watched' as const) : ('idle' as const);
    const delivery = { jobTry: job.attemptsStarted, queue, worker, ...limits, activity };
    return await runJob(data, delivery, { ...deps, stopping: () => this.#stopping }, stop);
  }

  async #verdict(outcome: JobOutcome, queue: string, job: Job, data: RunJob, token?: string): Promise<unknown> {
    switch (outcome.kind) {
      case 'ended':
        // The prefix keeps a code from being read as one of BullMQ's control messages.
        if (outcome.status === 'failed')
          throw new UnrecoverableError(`run failed: ${outcome.error?.code ?? 'internal'}`);
        return { status: outcome.status };
      case 'suspended':
        return { status: 'suspended' };
      case 'skipped':
        return { skipped: outcome.reason };
      case 'handed_over':
        await job.moveToWait(token);
        throw new WaitingError();
      case 'crashed_too_often':
        if (queue === quarantineQueue) await this.#options.abandon(data);
        else await this.#options.quarantine(data);
        return { quarantined: true };
      default:
        return assertNever(outcome);
    }
  }

  /** A full or read-only Redis makes the fetch loop spin without delay: it pauses for a second after each error. */
  async #onWorkerError(worker: Worker, error: Error): Promise<void> {
    const { log } = this.#options;
    if (this.#backingOff.has(worker) || this.#stopping) return;
    this.#backingOff.add(worker);
    log.warn({ err: error, queue: worker.name }, 'queue error');
    const refused = /^(OOM|MISCONF|READONLY|NOREPLICAS|LOADING)/.test(error.message);
    if (refused) await worker.pause(true).catch(() => {});
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    if (refused && !this.#stopping) {
      worker
        .resume()
        .catch((cause: unknown) => log.error({ err: cause, queue: worker.name }, 'fetch loop did not resume'));
    }
    this.#backingOff.delete(worker);
  }
}

/**
 * Watches the leases of the jobs of this process. BullMQ does not stop a processor whose lock it could not renew, and emits
 * nothing while the network drops packets. So a lease that was not renewed for most of its duration aborts the run here,
 * before another worker may claim it.
 */
export class Leases implements Disposable {
  readonly #leases = new Map<string, { renewedAt: number; readonly controller: AbortController }>();
  readonly #expireAfterMs: number;
  readonly #timer: NodeJS.Timeout;

  constructor(lockDurationMs: number) {
    this.#expireAfterMs = lockDurationMs * 0.8;
    this.#timer = setInterval(() => this.#expire(), Math.max(50, lockDurationMs / 60));
  }

  /** Begins a lease that aborts `controller` when it is lost. End it when the processor call ends. */
  begin(jobId: string, controller: AbortController): { end(): void } {
    const lease = { renewedAt: performance.now(), controller };
    this.#leases.set(jobId, lease);
    return {
      // A later delivery of the same job may have its own lease by now.
      end: () => void (this.#leases.get(jobId) === lease && this.#leases.delete(jobId)),
    };
  }

  renewed(jobIds: readonly string[]): void {
    const now = performance.now();
    for (const id of jobIds) {
      const lease = this.#leases.get(id);
      if (lease) lease.renewedAt = now;
    }
  }

  /** The lock is lost for certain. */
  lost(jobId: string): void {
    this.#leases.get(jobId)?.controller.abort(new RunError('lock_lost', 'the lock of the job could not be renewed'));
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }

  #expire(): void {
    const oldest = performance.now() - this.#expireAfterMs;
    for (const [id, lease] of this.#leases) if (lease.renewedAt < oldest) this.lost(id);
  }
}
