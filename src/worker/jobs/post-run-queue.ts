import { UnrecoverableError, WaitingError, type Job, type JobsOptions, type Queue } from 'bullmq';
import {
  postrunJob,
  type PostrunJob,
  postrunVersion,
  type PostRunKind,
  postrunQueueOf,
  quarantineQueue,
} from '../../shared/contract/queues.ts';
import { queueOf } from '../../shared/state/run/create-runs.ts';
import { sha256 } from '../../shared/base/ids.ts';
import type { RunRecord } from '../../shared/contract/run.ts';
import type { LoadedAgent } from '../agents/loaded-agent.ts';
import { fetchLoop, startLoops, stopLoops, type QueueSettings } from './fetch-loops.ts';
import type { PostRunDelivery } from './post-run-job.ts';

export interface PostRunQueueDeps {
  readonly queues: { get(name: string): Queue };
  readonly agents: ReadonlyMap<string, LoadedAgent>;
  readonly embeds: boolean;
}

/** An ended job is removed: a thread whose title failed gets another job after its next run. */
const options: JobsOptions = {
  attempts: 3,
  backoff: { type: 'exponential', delay: 2_000, jitter: 0.5 },
  priority: 10,
  removeOnComplete: true,
  removeOnFail: true,
};

/**
 * Queues the post-run jobs of a run in a thread that its agent wants: separate ones, so that none waits for another. None for
 * an agent with secret data: no other model may get it.
 */
export async function queuePostRunJobs(record: RunRecord, { queues, agents, embeds }: PostRunQueueDeps): Promise<void> {
  const { runId, tenant, request, queue: own, parent } = record;
  const { thread: threadId, agent: agentId } = request;
  const definition = agents.get(agentId)?.definition;
  if (threadId === undefined || !definition || definition.sensitivity === 'secret') return;
  const { title, embeddings } = definition.postRun;
  const wanted: PostRunKind[] = [
    ...(title ? ['title' as const] : []),
    ...(embeddings && embeds ? ['embeddings' as const] : []),
  ];
  if (wanted.length === 0) return;
  const batch = request.batch ?? parent?.batch;
  const queue = own === quarantineQueue ? queueOf(request) : own;
  const jobs = wanted.map((postRun) => {
    const about = { runId, tenant, threadId, agentId, batch };
    const data: PostrunJob = { v: postrunVersion, kind: 'postrun', postRun, ...about };
    return { name: 'postrun', data, opts: { ...options, jobId: jobIdOf(data) } };
  });
  await queues.get(postrunQueueOf(queue)).addBulk(jobs);
}

/** One job for the title of a thread, whichever of its runs asks first. */
function jobIdOf({ postRun, runId, tenant, threadId }: PostrunJob): string {
  return postRun === 'title' ? `title-${sha256(`${tenant}\0${threadId}`).slice(0, 32)}` : `${postRun}-${runId}`;
}

export interface PostRunConsumerOptions extends QueueSettings {
  readonly queues: readonly string[];
  run(job: PostrunJob, delivery: PostRunDelivery, signal: AbortSignal): Promise<void>;
}

/** At once in one process. Few: the runs of the process come first. */
const concurrency = 4;
/** A job that loses its worker so often fails. */
const maxStalledCount = 2;
const longestGraceMs = 10_000;

/** Takes post-run jobs, from queues of their own so that no run waits for them. */
export function postRunConsumer(settings: PostRunConsumerOptions) {
  const calls = new Map<AbortController, Promise<unknown>>();
  let stopping = false;
  const work = async (job: Job, token?: string, lost?: AbortSignal): Promise<void> => {
    const parsed = postrunJob.safeParse(job.data);
    if (!parsed.success) throw new UnrecoverableError('validation: not a post-run job');
    const call = new AbortController();
    lost?.addEventListener('abort', () => call.abort(lost.reason), { once: true });
    const isLast = job.attemptsMade + 1 >= (job.opts.attempts ?? 1);
    const delivery = { isRepeat: job.attemptsStarted > 1, isLast };
    const done = stopping
      ? Promise.reject(new Error('the worker is shutting down'))
      : settings.run(parsed.data, delivery, call.signal);
    calls.set(call, done);
    try {
      await done;
    } catch (error) {
      if (!stopping || lost?.aborted) throw error;
      await job.moveToWait(token);
      throw new WaitingError();
    } finally {
      calls.delete(call);
    }
  };
  const workers = settings.queues.map((queue) => {
    const worker = fetchLoop(queue, work, settings, { concurrency, maxStalledCount });
    worker.on('lockRenewalFailed', (jobIds) => {
      for (const id of jobIds) worker.cancelJob(id, 'lock lost');
    });
    worker.on('error', (err) => settings.log.debug({ err, queue }, 'queue error'));
    return worker;
  });
  return {
    start: async () => await startLoops(workers, settings),
    /** Stops fetching, and lets started jobs end within `graceMs`, at most 10 s; the others are returned to their queue. */
    async stop(graceMs: number) {
      stopping = true;
      const cut = () => {
        for (const call of calls.keys()) call.abort(new Error('the worker is shutting down'));
      };
      await stopLoops(workers, Math.min(graceMs, longestGraceMs), cut, () => Promise.allSettled(calls.values()));
    },
  };
}
