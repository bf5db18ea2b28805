import type { ToolErrorKind } from '../../base/errors.ts';
import type { TrustClass } from '../agent/agent.ts';
import type { CallDecision, ChildEnd } from '../control.ts';
import type { Sensitivity } from '../message.ts';

/** What the model gets for a call: a tool's output, or an error text with its kind. */
export interface CallResult {
  readonly content: string;
  /** Absent: public. */
  readonly sensitivity?: Sensitivity | undefined;
  readonly errorKind?: ToolErrorKind | undefined;
  /** The model made a mistake that it may repair: it counts against the correction rounds. */
  readonly correctable?: boolean | undefined;
  /** Where it comes from. Absent: a tool of the operator's own. */
  readonly trust?: TrustClass | undefined;
  /** Deferred tools that the model may call from the next step on. */
  readonly promoted?: readonly string[] | undefined;
  /** The conversation goes on with this agent. */
  readonly handoff?: string | undefined;
  /** Names of the patterns of instructions that were found in it. */
  readonly findings?: readonly string[] | undefined;
  /** Names where all of it can be read. */
  readonly handle?: string | undefined;
}

/**
 * How far a call of the current step is.
 *
 * - todo: nothing has happened, or only a call that may be repeated freely
 * - tool_intent: the intent is recorded, this worker runs it now
 * - interrupted: another worker recorded the intent and no result; whether it took effect is not known
 * - tool_result: the result is recorded and never changes
 */
export type CallStatus = 'todo' | 'tool_intent' | 'interrupted' | 'tool_result';

/** What people were asked about the call with this index. `id` is unique within the run. */
export interface Ask {
  readonly id: string;
  readonly kind: 'approval' | 'user_input' | 'unknown_outcome';
  readonly index: number;
  readonly requestedAtMs: number;
  /** Undecided until then counts as denied. */
  readonly expiresAtMs: number;
}

/** What a person decided about a call. */
export type PersonDecision = Exclude<CallDecision, ChildEnd>;

/** The run that does a call, and how it ended. */
export interface ChildCall {
  readonly id: string;
  readonly requestedAtMs: number;
  readonly end?: ChildEnd;
}

/** A call with a side effect that a script made. Its outcome is JSON text; without one it is not known. */
export interface InnerCall {
  readonly fingerprint: string;
  readonly outcome?: string;
}

/** One tool call of the current step. `args` is the model's own text, or what a person has put in its place. */
export interface StepCall {
  /** Position among the calls of its step, from 0: with the step it makes the idempotency key. */
  readonly index: number;
  readonly id: string;
  readonly name: string;
  readonly args: string;
  readonly status: CallStatus;
  /**
   * What this name meant for the model: `mcp:<server>/<tool>`, or null for code of the worker. Names of servers' tools may
   * change while a run waits. Absent: any tool of this name.
   */
  readonly source?: string | null;
  /** Set when the status is `tool_result`. */
  readonly result?: CallResult | undefined;
  /** When its intent was recorded. */
  readonly startedAtMs?: number | undefined;
  /** The last thing that people were asked about it, and what they decided. */
  readonly ask?: Ask;
  readonly decision?: PersonDecision;
  /** Another run does it. */
  readonly child?: ChildCall;
  /** Those of a script, by their number from 1. */
  readonly inner?: ReadonlyMap<number, InnerCall>;
  /** Its end was published. Ends are published in the order of the calls, so one may have to wait for others. */
  readonly endPublished?: true;
}
