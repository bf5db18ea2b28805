import { z } from 'zod';
import { publicId, runId } from './ids.ts';
import { quarantineQueue } from './redis.ts';

/** What may follow an answer in a thread. */
export const postrunEffect = z.enum(['title', 'embeddings']);
export type PostrunEffect = z.infer<typeof postrunEffect>;

export const postrunVersion = 1;

/** BullMQ job data. It says everything: by the time of the job the record of its run may be gone. */
export const postrunJob = z.object({
  v: z.literal(postrunVersion),
  kind: z.literal('postrun'),
  effect: postrunEffect,
  runId,
  tenant: z.string(),
  threadId: publicId,
  agentId: publicId,
  /** Whose budget pays beside the tenant's. */
  batch: publicId.optional(),
});
export type PostrunJob = z.infer<typeof postrunJob>;

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
