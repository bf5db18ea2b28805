import { z } from 'zod';

const times = z.int().min(2).max(1_000);

/**
 * From when on a run counts as going in circles. Each number is how often something happens; a rung of the ladder that was taken
 * counts from then on anew, with `escalateAfter`.
 */
export const loopGuard = z.strictObject({
  /** The same tool with the same arguments gave the same result so many times. */
  repeatedCalls: times.default(3),
  /** A tool ended in errors of one kind so many times in a row, whatever its arguments. */
  repeatedErrors: times.default(4),
  /** So many steps in a row brought nothing but results that were there before. */
  staleSteps: times.default(5),
  /** One agent handed the conversation to the same other one so many times. */
  handoffs: times.default(2),
  /** How often it happens again after a rung until the next one is taken. */
  escalateAfter: z.int().min(1).max(1_000).default(2),
});
export type LoopGuard = z.output<typeof loopGuard>;

/** What goes in circles. */
export const loopPattern = z.enum(['repeated_call', 'repeated_error', 'stale_steps', 'handoff_circle']);
export type LoopPattern = z.infer<typeof loopPattern>;

/** The rungs: the model is warned, the tool is withdrawn for the rest of the turn, a person is asked, the run fails. */
export const loopAction = z.enum(['nudge', 'withdraw', 'suspend', 'fail']);
export type LoopAction = z.infer<typeof loopAction>;

/** Is the guard on, and with which thresholds? An agent that says something decides, else the operator. */
export function loopGuardOf(given: LoopGuard | boolean | undefined, byDefault: boolean): LoopGuard | undefined {
  const asked = given ?? byDefault;
  if (asked === false) return undefined;
  return asked === true ? loopGuard.parse({}) : asked;
}
