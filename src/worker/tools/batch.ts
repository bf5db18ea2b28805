import type { Clock } from '../../shared/clock.ts';
import type { RunError } from '../../shared/errors.ts';
import type { EventBody, PendingItem } from '../../shared/event.ts';
import type { JournalEntry } from '../../shared/journal.ts';
import type { Redactor } from '../../shared/redact.ts';
import type { CallResult, StepCall } from './call.ts';
import type { StepResults } from './step-results.ts';

/** What the executor knows of the run around the turn. */
export interface ToolRunContext {
  readonly runId: string;
  /** The idempotency key of a call: stable over retries, workers and crashes. */
  keyFor(step: number, index: number): string;
}

/** What the executor asks of the turn that it works for. */
export interface ToolHost {
  readonly step: number;
  readonly maxParallel: number;
  /** Calls of this run whose outcome is not known: an identical one is refused. */
  readonly unknownCalls: readonly Pick<StepCall, 'name' | 'args'>[];
  readonly clock: Clock;
  readonly redactor: Redactor;
  emit(event: EventBody): void;
  /** Durable when it resolves. */
  record(entries: readonly JournalEntry[]): Promise<void>;
}

/** One step's calls on their way. */
export interface Batch {
  readonly context: ToolRunContext;
  readonly host: ToolHost;
  /** Aborted from outside, and when a result cannot be recorded. */
  readonly signal: AbortSignal;
  readonly results: StepResults;
  /** Fingerprints of the calls whose outcome is not known; grows while the step runs. */
  readonly unknown: Set<string>;
  /** What a person has to settle before the step can go on. */
  readonly pending: PendingItem[];
  /** Unknown outcomes that end the run, the first one first. */
  readonly fatal: RunError[];
}

/**
 * How a call ended. Only a result goes to the journal: `unknown` is settled by the tool's own policy, and an `aborted`
 * call may still be run by the worker that continues.
 */
export type Ending =
  | { readonly kind: 'result'; readonly result: CallResult }
  | { readonly kind: 'unknown' }
  | { readonly kind: 'aborted' };
