import { z } from 'zod';

/** One line of a turn that is a run. */
export const chatLine = z.object({
  type: z.string(),
  seq: z
    .int()
    .min(0)
    .optional()
    .describe(
      'Number of the event that it comes from: resume after it. Absent where there is nothing to resume after.',
    ),
  data: z.unknown().optional(),
});
/** A turn that has a run, as an answer names it. */
export const chatTurnView = z.object({
  runId: z.string(),
  executionId: z.string(),
  tenantId: z.string(),
  sessionId: z.string(),
  turnIndex: z.int().min(0).optional().describe('Absent for a run that was not submitted as a turn.'),
  attached: z.boolean().describe('The run was there already.'),
  replayed: z.boolean().describe('It had even ended.'),
});

export type ChatLine = Readonly<z.infer<typeof chatLine>>;
