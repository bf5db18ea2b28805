import { z } from 'zod';
import { voteView } from '../decisions.ts';
import { pendingView } from '../event.ts';
import { maxPreviewChars } from '../run.ts';

export const approvalKind = z.enum(['approval', 'user_input', 'unknown_outcome', 'budget']);
export type ApprovalKind = z.infer<typeof approvalKind>;

/** One thing that a run waits for people to decide: all that an inbox shows. */
export const approvalView = z.object({
  ...pendingView.shape,
  kind: approvalKind,
  runId: z.string(),
  agent: z.string(),
  thread: z.string().optional(),
  batch: z.string().optional(),
  metadata: z.record(z.string(), z.string()).optional(),
  inputPreview: z
    .string()
    .max(maxPreviewChars)
    .optional()
    .describe('How the input of the run begins, on one line. `GET /v1/runs/{id}` has all of it.'),
  argsSchema: z
    .record(z.string(), z.unknown())
    .optional()
    .describe('JSON Schema that `updatedArgs` of a decision are checked against. Absent: only the worker checks them.'),
  votes: z.array(voteView).describe('The votes so far, where several people have to agree.'),
  href: z.string().describe('The run. Decisions are posted to `decisions` below it.'),
});
export type ApprovalView = z.infer<typeof approvalView>;
