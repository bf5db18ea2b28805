import { z } from 'zod';
import { publicId, runId } from '../../base/ids.ts';

/** What an answer in the form of OpenAI's API repeats of the request that it answers, beside what the run itself knows. */
export const wireOrigin = z.strictObject({
  endpoint: z.enum(['/v1/responses', '/v1/chat/completions']),
  /** As the caller named the agent. */
  model: z.string().min(1).max(200),
  /** The run of the response that this one continues. */
  previous: runId.optional(),
  conversation: publicId.optional(),
  background: z.literal(true).optional(),
});
export type WireOrigin = Readonly<z.infer<typeof wireOrigin>>;
