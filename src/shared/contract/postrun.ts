import { z } from 'zod';
import { publicId, runId } from '../base/ids.ts';

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
