import type { ToolErrorKind } from '../../shared/errors.ts';
import type { Sensitivity } from '../../shared/message.ts';

/** What the model is told about a call: a tool's output, or an error text with its kind. */
export interface CallResult {
  readonly content: string;
  /** Absent: public. */
  readonly sensitivity?: Sensitivity | undefined;
  readonly errorKind?: ToolErrorKind | undefined;
  /** The model made a mistake that it may mend: it counts against the correction rounds. */
  readonly correctable?: boolean | undefined;
}

/**
 * Where a call of the current step stands.
 *
 * - todo: nothing has happened, or only a call that may be repeated freely
 * - calling: the intent is recorded, this worker runs it now
 * - interrupted: another worker recorded the intent and no result; whether it took effect is not known
 * - called: the result is recorded and never changes
 */
export type CallStatus = 'todo' | 'calling' | 'interrupted' | 'called';

/** One tool call of the current step. `args` is the model's own text. */
export interface StepCall {
  /** Place among the calls of its step, from 0: with the step it makes the idempotency key. */
  readonly index: number;
  readonly id: string;
  readonly name: string;
  readonly args: string;
  readonly status: CallStatus;
  /** Set when the status is `called`. */
  readonly result?: CallResult | undefined;
}
