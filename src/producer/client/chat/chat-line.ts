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
export type ChatLine = Readonly<z.infer<typeof chatLine>>;
