import { z } from 'zod';
import { publicId } from './ids.ts';

/** The mutable first record of a thread. */
export const threadManifest = z.object({
  v: z.literal(1),
  threadId: publicId,
  agentId: publicId,
  sessionId: z.string().optional(),
  taskId: z.string().optional(),
  title: z.string().optional(),
  createdAt: z.string(),
  updatedAt: z.string(),
});
export type ThreadManifest = z.infer<typeof threadManifest>;
