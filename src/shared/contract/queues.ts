import { z } from 'zod';
import { publicId, runId } from '../base/ids.ts';

/** The queue of requests that name none. */
export const defaultQueue = 'runs';
/** Runs that keep losing their workers. Served one at a time, by workers that list it. */
export const quarantineQueue = 'quarantine';
/** The fleet's own chores; every worker serves it. */
export const maintenanceQueue = 'maintenance';

/** Batches, a job each; producers serve it. */
export const batchQueue = 'batches';

/** More would make metrics and heartbeats large; they are an operator's words, never a caller's. */
export const maxQueues = 50;

/** The queue beside a queue of runs: who serves that one has the agents, and no run waits behind what follows others. */
export function postrunQueueOf(queue: string): string {
  return `${queue}-postrun`;
}

/** Is this the name of such a queue? */
export function isPostrunQueue(queue: string): boolean {
  return queue.endsWith(postrunQueueOf(''));
}

/** The queues of what follows runs that a worker serves with these. One for quarantined runs alone serves none. */
export function postrunQueues(queues: readonly string[]): readonly string[] {
  return queues.filter((queue) => queue !== quarantineQueue).map(postrunQueueOf);
}

const queueName = z.string().regex(/^[a-z0-9][a-z0-9-]{0,62}$/, 'must be lower-case letters, digits and dashes');

/** A queue that a worker serves. No worker may take runs from the queues that hold other kinds of jobs. */
export const servedQueue = queueName.refine(
  (name) => name !== maintenanceQueue && name !== batchQueue && !isPostrunQueue(name),
  `is a queue of other jobs than runs: \`${maintenanceQueue}\`, \`${batchQueue}\` and names that end in \`${postrunQueueOf('')}\` are reserved`,
);

/** A queue that a caller names, or an operator lists for callers. */
export const runQueue = servedQueue.refine(
  (name) => name !== quarantineQueue,
  `is reserved: only runs that bring workers down go to \`${quarantineQueue}\``,
);

/** The jobs that may follow an answer in a thread. */
export const postRunKind = z.enum(['title', 'embeddings']);
export type PostRunKind = z.infer<typeof postRunKind>;

export const postrunVersion = 1;

/** BullMQ job data. It says everything: by the time of the job the record of its run may be gone. */
export const postrunJob = z.object({
  v: z.literal(postrunVersion),
  kind: z.literal('postrun'),
  postRun: postRunKind,
  runId,
  tenant: z.string(),
  threadId: publicId,
  agentId: publicId,
  /** Whose budget pays beside the tenant's. */
  batch: publicId.optional(),
});
export type PostrunJob = z.infer<typeof postrunJob>;

export const batchJobVersion = 1;

/** BullMQ job data: everything about the batch is in its record. `job` counts the jobs of a batch: only the last one is worked on. */
export const batchJob = z.object({
  v: z.literal(batchJobVersion),
  kind: z.literal('batch'),
  batchId: z.string(),
  job: z.int().min(1),
});
export type BatchJob = z.infer<typeof batchJob>;
