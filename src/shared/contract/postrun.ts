import { z } from 'zod';
import { publicId, runId } from '../base/ids.ts';

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
