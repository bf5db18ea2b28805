import { z } from 'zod';
import { publicId } from '../../base/ids.ts';
import { jsonText } from '../../base/json.ts';

const maxDataBytes = 64 * 1024;

/** What a task file says. */
export const taskFile = z.strictObject({
  title: z.string().trim().min(1).max(200),
  description: z.string().max(100_000).default(''),
  /** Whatever else the prompt is to say about it, or a prompt builder to know. */
  data: z
    .json()
    .refine((data) => Buffer.byteLength(jsonText(data)) <= maxDataBytes, `at most ${maxDataBytes} bytes as JSON`)
    .optional(),
});

/** Something that a run works on beside its input, written by the operator. */
export const taskDefinition = taskFile.extend({ id: publicId });
export type TaskDefinition = z.output<typeof taskDefinition>;
