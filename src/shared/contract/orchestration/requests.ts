import { z } from 'zod';
import { publicId } from '../../base/ids.ts';
import { jsonCopy } from '../../base/json-value.ts';
import { maxTaskStateBytes, taskSettings, taskSpec } from './task.ts';

/** Of the request's input: it goes into every prompt, together with an answer. */
export const maxEvaluatedInputBytes = 128 * 1024;

const rubric = z.strictObject({
  /** What a good answer is. */
  rubric: z.string().min(1).max(8_000),
  /** The agent that judges by it. */
  judge: publicId,
  /** `llm-judge`: points from 0 to 10, of which `passScore` pass. `free-form`: it passes or not. */
  kind: z.enum(['llm-judge', 'free-form']).default('llm-judge'),
  /** Default 8. */
  passScore: z.number().min(0).max(10).optional(),
});

/** JSON Schema of an object: an answer that is such JSON passes, and no agent judges. */
const ofSchema = z.strictObject({
  schema: z.record(z.string(), z.unknown()).refine(isSmallJson, 'is no JSON, or too large'),
});

/** An agent that is asked again, with a critique, until an answer is good enough. */
export const evaluateRequest = z.strictObject({
  generator: publicId,
  /** An agent that gives points by its own instructions, a rubric and who judges by it, or a schema. */
  evaluator: z.union([publicId, rubric, ofSchema]),
  /** How often the generator is asked at most. */
  maxIterations: z.int().min(1).max(50),
  /** Which answer is the result. */
  select: z.enum(['last-iteration', 'best-score']).default('last-iteration'),
});
export type EvaluateRequest = z.output<typeof evaluateRequest>;

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

const { budget, stopPolicies, onActionFailure } = taskSettings.shape;
const { intent, requirements } = taskSpec.shape;

/** JSON of any form. Not `z.json()`, which no OpenAPI document can describe. */
const json = z.unknown().refine(isSmallJson, `must be JSON of at most ${maxTaskStateBytes} bytes`);

/** A task that a worker runs over an adapter which it has by name. The id of the task is that of the run. */
export const taskRequest = z.strictObject({
  adapter: publicId,
  intent,
  input: json.default(null),
  requirements,
  /** What is known, by the id of the requirement. */
  knowledge: z.record(publicId, z.unknown()).refine(isSmallJson, 'is no JSON, or too large').default({}),
  /** Where it ends at the latest. A cap of the run's own holds, too. */
  limits: budget,
  stopPolicies,
  onActionFailure,
});
export type TaskRequest = z.output<typeof taskRequest>;

function isSmallJson(value: unknown): boolean {
  try {
    jsonCopy(value ?? null, 'it', maxTaskStateBytes);
    return true;
  } catch {
    return false;
  }
}
