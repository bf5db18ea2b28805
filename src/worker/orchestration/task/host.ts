import { systemClock } from '../../../shared/base/clock.ts';
import { type EventBody, eventBodies } from '../../../shared/contract/event.ts';
import type { Json } from '../../../shared/base/json-value.ts';
import type { z } from 'zod';
import { RunError } from '../../../shared/base/errors.ts';

/**
 * Where a task runs. What a task does depends on its settings, on what comes back from here, and on nothing else: a host that
 * keeps what steps answered, and gives the same answers and times again, repeats a task exactly up to where it was.
 */
export interface TaskHost {
  /**
   * Runs one call of the adapter, or gives the answer that an earlier run of it had. Names are never used twice in a task.
   * The function answers with JSON also when the adapter fails; it rejects only with `cancelled`, after an abort. What the
   * host itself rejects with passes through the task unchanged, and nothing more is emitted. `onCharge` gets what a call
   * costs as soon as the adapter reports it; the answer has all of it.
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

/** More of one call are added up into the last one. */
const maxCharges = 256;

/** What one model call of an adapter cost. */
export const taskCharge = eventBodies['cost.updated'].omit({ cumulativeCostMicrocents: true });
export type TaskCharge = z.infer<typeof taskCharge>;

/** Adds what an event cost. Throws `validation` for a cost that cannot be read: money must not be lost in silence. */
export function addCharge(charges: TaskCharge[], event: EventBody, onCharge: (charge: TaskCharge) => void): void {
  if (event.type !== 'cost.updated') return;
  const read = taskCharge.safeParse(event);
  if (!read.success)
    throw new RunError('validation', 'charge: the event cost.updated has not the form that it must have');
  onCharge(read.data);
  const last = charges.at(-1);
  if (last && charges.length >= maxCharges) charges[maxCharges - 1] = sum(last, read.data);
  else charges.push(read.data);
}

function sum(a: TaskCharge, b: TaskCharge): TaskCharge {
  const cachedTokens = (a.cachedTokens ?? 0) + (b.cachedTokens ?? 0);
  const cacheWriteTokens = (a.cacheWriteTokens ?? 0) + (b.cacheWriteTokens ?? 0);
  return {
    model: b.model,
    inputTokens: a.inputTokens + b.inputTokens,
    outputTokens: a.outputTokens + b.outputTokens,
    ...(cachedTokens > 0 && { cachedTokens }),
    ...(cacheWriteTokens > 0 && { cacheWriteTokens }),
    costMicrocents: a.costMicrocents + b.costMicrocents,
    priced: a.priced && b.priced,
    usageReported: a.usageReported && b.usageReported,
  };
}
