import { RunError } from '../../shared/base/errors.ts';
import type { Clock } from '../../shared/base/clock.ts';
import { within } from '../../shared/base/deadline.ts';

/** The deadline of what has no other: a day, in milliseconds. */
export const longestMs = 86_400_000;

/**
 * What a function of the operator's own answers, or undefined when the signal aborted first; one that ignores its signal is
 * left behind. Throws what the function throws, and `run_timeout` after a day.
 */
export async function foreignAnswer<T>(
  work: (signal: AbortSignal) => Promise<T> | T,
  clock: Clock,
  signal: AbortSignal,
): Promise<{ readonly value: T } | undefined> {
  const settled = await within(longestMs, work, clock, signal);
  switch (settled.kind) {
    case 'value':
      return { value: settled.value as T };
    case 'threw':
      throw settled.error;
    case 'timeout':
      throw new RunError('run_timeout', 'no answer within a day');
    default:
      return undefined;
  }
}
