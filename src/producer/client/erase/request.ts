import { z } from 'zod';
import { publicId, runId as runIdSchema } from '../../../shared/base/ids.ts';
import { erasureReceipt } from '../../../shared/contract/erasure/receipt.ts';
import { metadata } from '../../../shared/contract/run.ts';
import { runListCursor } from '../list-runs.ts';

/** What is to be erased: one run, a thread with its runs, or the runs with this metadata. */
export const eraseRequest = z
  .strictObject({
    run: runIdSchema.optional(),
    thread: publicId.optional(),
    metadata: metadata.optional(),
    /** Runs that have not ended are cancelled first. */
    cancel: z.boolean().default(false),
    /** With `run` and `metadata`: also the threads of these runs, with all runs of them. */
    threads: z.boolean().default(false),
    /** With `metadata`: from the answer of an earlier call, to go on where that ended. */
    cursor: runListCursor.optional(),
    /** With `metadata`: at most so many runs that fit in one call: 1 to 1,000, default 100. */
    limit: z.int().min(1).max(1_000).default(100),
    /** The same request again under the same key, within an hour or at the same time, has the same answer, its receipt too. */
    idempotencyKey: publicId.optional(),
  })
  .refine(
    ({ run, thread, metadata: labels }) => [run, thread, labels].filter((given) => given !== undefined).length === 1,
    'give run, thread or metadata, one of them',
  )
  .refine(({ metadata: labels }) => labels === undefined || Object.keys(labels).length > 0, {
    path: ['metadata'],
    message: 'give at least one key',
  });
export type EraseRequest = Readonly<z.input<typeof eraseRequest>>;
export type Asked = z.output<typeof eraseRequest>;

const reason = z.enum(['open', 'in_thread', 'child', 'in_open_batch', 'too_many']);

/** What one call has erased, and what it has not. */
export const erasureAnswer = z.object({
  receipt: erasureReceipt,
  kept: z
    .array(z.object({ runId: z.string(), reason }))
    .describe(
      'Runs that fit and were left: `open` has not ended (`cancel=true`), `in_thread` has its text in a thread (`threads=true`), `child` works for a run that does not fit, `in_open_batch` is a line of a batch that has not ended, `too_many` is tied to more than 10,000 others.',
    ),
  cursor: z.string().optional().describe('There may be more of them: ask again with it. None means the end.'),
});
export type ErasureAnswer = Readonly<z.infer<typeof erasureAnswer>>;
