import type { JobsOptions, Queue } from 'bullmq';
import { queueOf } from '../../shared/state/run/create-runs.ts';
import { postrunQueueOf, quarantineQueue } from '../../shared/contract/queues.ts';
import { sha256 } from '../../shared/base/ids.ts';
import { postrunVersion, type PostRunKind, type PostrunJob } from '../../shared/contract/postrun.ts';
import type { RunRecord } from '../../shared/contract/run.ts';
import type { LoadedAgent } from '../agents/load-agents.ts';

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
