import { systemClock } from '../../../shared/base/clock.ts';
import type { EventBody } from '../../../shared/contract/event.ts';
import type { Json } from '../../../shared/base/json-value.ts';
import type { TaskCharge } from './charges.ts';

/**
 * Where a task runs. What a task does depends on its settings, on what comes back from here, and on nothing else: a host that
 * keeps what steps answered, and gives the same answers and times again, repeats a task exactly up to where it was.
 */
export interface TaskHost {
  /**
   * Runs one call of the adapter, or gives the answer that an earlier run of it had. Names are never used twice in a task.
   * The function answers with JSON also when the adapter fails; it rejects only with `cancelled`, after an abort. What the
   * host itself rejects with passes through the task unchanged, and nothing more is emitted. `onCharge` gets what a call
   * costs as soon as the adapter says so; the answer has all of it.
   */
  step(name: string, fn: (onCharge?: (charge: TaskCharge) => void) => Promise<Json>): Promise<Json>;
  /** Milliseconds since the epoch. */
  now(): number;
  /** How long the task has been worked on, in milliseconds. Absent: from its start by `now`. */
  workedMs?(): number;
  /** What was paid so far for calls that came to no answer, in microcents. Absent: nothing. */
  lostMicrocents?(): number;
  /** The same events in the same order whenever a task is repeated: a host that repeats leaves out those that are known. */
  emit(event: EventBody): void | Promise<void>;
  /** Cancels the task. A host that only stops working on a task rejects a step instead. */
  readonly signal: AbortSignal;
}

/** Runs everything here and at once, and keeps nothing. */
export function localHost(given: Partial<TaskHost> = {}): TaskHost {
  return {
    step: given.step?.bind(given) ?? ((_name, fn) => fn()),
    now: given.now?.bind(given) ?? (() => systemClock.now()),
    ...(given.workedMs && { workedMs: given.workedMs.bind(given) }),
    emit: given.emit?.bind(given) ?? (() => {}),
    ...(given.lostMicrocents && { lostMicrocents: given.lostMicrocents.bind(given) }),
    signal: given.signal ?? new AbortController().signal,
  };
}
