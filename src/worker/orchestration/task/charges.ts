import type { z } from 'zod';
import { RunError } from '../../../shared/base/errors.ts';
import { eventBodies, type EventBody } from '../../../shared/contract/event.ts';

/** More of one call are added up into the last one. */
const maxCharges = 256;

/** What one model call of an adapter cost. */
export const taskCharge = eventBodies['cost.updated'].omit({ cumulativeCostMicrocents: true });
export type TaskCharge = z.infer<typeof taskCharge>;

/** What a call cost. */
export class Charges {
  readonly #charges: TaskCharge[] = [];
  readonly #onCharge: (charge: TaskCharge) => void;

  constructor(onCharge: (charge: TaskCharge) => void) {
    this.#onCharge = onCharge;
  }

  /** Throws `validation` for a cost that cannot be read: money must not be lost in silence. */
  add(event: EventBody): void {
    if (event.type !== 'cost.updated') return;
    const read = taskCharge.safeParse(event);
    if (!read.success)
      throw new RunError('validation', 'charge: the event cost.updated has not the form that it must have');
    this.#onCharge(read.data);
    const last = this.#charges.at(-1);
    if (last && this.#charges.length >= maxCharges) this.#charges[maxCharges - 1] = sum(last, read.data);
    else this.#charges.push(read.data);
  }

  /** So far: what is added later is in no answer any more. */
  all(): TaskCharge[] {
    return [...this.#charges];
  }
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
