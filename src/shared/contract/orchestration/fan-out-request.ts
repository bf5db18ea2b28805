import { z } from 'zod';
import { publicId } from '../../base/ids.ts';

export const maxFanOutChildren = 256;
/** Of all children together, beside the input of the run. They are read with the record. */
const maxInputsBytes = 512 * 1024;

const fanOutChild = z.strictObject({
  agent: publicId,
  /** Default: the input of the run. */
  input: z.string().optional(),
  /** Names it in events, placeholders and results. Default: the agent. */
  id: publicId.optional(),
});

const mergeStrategy = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('concat'),
    separator: z.string().max(1_000).optional(),
    includeFailures: z.boolean().optional(),
  }),
  z.strictObject({ kind: z.literal('first-success') }),
  /** A judge that workers have by this name, or else an agent. */
  z.strictObject({ kind: z.literal('judge-merge'), judge: publicId }),
  /** A function that workers have by this name. */
  z.strictObject({ kind: z.literal('custom'), merge: publicId }),
]);

/** Several agents that are asked at the same time, and how their answers become one. Times are in milliseconds. */
export const fanOutRequest = z.strictObject({
  children: z
    .array(fanOutChild)
    .min(1)
    .max(maxFanOutChildren)
    .refine(
      (children) => children.reduce((sum, { input = '' }) => sum + Buffer.byteLength(input), 0) <= maxInputsBytes,
      `their inputs may have ${maxInputsBytes} bytes together`,
    ),
  mergeStrategy: mergeStrategy.default({ kind: 'concat' }),
  /** What each child may use. The time is that in which it works: neither in its queue nor while it is suspended. */
  perBudget: z
    .strictObject({
      tokens: z.int().min(1).optional(),
      toolCalls: z.int().min(0).optional(),
      durationMs: z.int().min(1).max(86_400_000).optional(),
    })
    .optional(),
  maxConcurrentChildren: z.int().min(1).max(64).default(4),
});
export type FanOutRequest = z.output<typeof fanOutRequest>;
