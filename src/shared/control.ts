import { z } from 'zod';

/** How a cancel treats what is going on. `drain` lets the current step finish; the default stops at once. */
export const cancelRequest = z.strictObject({
  drain: z.boolean().default(false),
  onPendingApprovals: z.enum(['deny', 'hold', 'fail']).default('deny'),
  reason: z.string().max(500).optional(),
});
export type CancelRequest = z.output<typeof cancelRequest>;

/** What travels on the control channel. It is a wake-up: the durable flag in the run record is what counts. */
export const controlMessage = z.object({
  v: z.literal(1),
  runId: z.string(),
  op: z.literal('cancel'),
  cancel: cancelRequest,
});
export type ControlMessage = z.infer<typeof controlMessage>;
