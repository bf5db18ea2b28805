import { z } from 'zod';

/** What a run has brought by the time that it ended without an answer. Redacted and bounded; its thread, where it has one, has all of it. */
export const unfinishedWork = z.object({
  text: z.string().describe('What its model wrote last, at most 16 KiB.'),
  results: z
    .array(
      z.object({
        toolCallId: z.string(),
        toolName: z.string(),
        content: z.string(),
        isError: z.literal(true).optional(),
        withheld: z.literal(true).optional().describe('It is secret: `content` is empty.'),
      }),
    )
    .describe('What its latest tool calls answered, oldest first, each at most 1 KiB.'),
  omitted: z.int().min(0).describe('Earlier results that are not listed.'),
});
export type UnfinishedWork = z.infer<typeof unfinishedWork>;
