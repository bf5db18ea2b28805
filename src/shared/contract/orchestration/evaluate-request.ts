import { z } from 'zod';
import { publicId } from '../../base/ids.ts';

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

/** An agent that is asked again, with a critique, until an answer is good enough. */
export const evaluateRequest = z.strictObject({
  generator: publicId,
  /** An agent that gives points by its own instructions, or a rubric and who judges by it. */
  evaluator: z.union([publicId, rubric]),
  /** How often the generator is asked at most. */
  maxIterations: z.int().min(1).max(50),
  /** Which answer is the result. */
  select: z.enum(['last-iteration', 'best-score']).default('last-iteration'),
});
export type EvaluateRequest = z.output<typeof evaluateRequest>;
