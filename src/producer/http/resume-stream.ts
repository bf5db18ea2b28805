import { orLate } from '../../shared/base/deadline.ts';
import type { IncomingHttpHeaders } from 'node:http';
import { z } from 'zod';
import { RunError } from '../../shared/base/errors.ts';

/** A log that has an event or an error has delivered it by then. */
const quietMs = 50;

/** From where a broken stream is resumed. */
export const resumeHeaders = z.object({
  'last-event-id': z.string().optional().describe('Continue after this number. Wins over `after`.'),
});

/** The number in the header, or undefined. Throws `validation`. */
export function lastEventId(headers: IncomingHttpHeaders): number | undefined {
  const text = headers['last-event-id'];
  if (text === undefined) return undefined;
  if (!/^\d{1,15}$/.test(String(text))) throw new RunError('validation', 'Last-Event-ID must be a whole number from 0');
  return Number(text);
}

/**
 * Resolves when the stream can be started: the first event is there, or the run exists and is quiet. Rejects when it
 * cannot: the same connection answers in order, so once the run has been read, an error of the log would have come.
 */
export async function untilKnown<T>(first: Promise<IteratorResult<T>>, look: () => Promise<unknown>): Promise<void> {
  const settled = first.then(() => true);
  // When the look fails first, no code awaits this one any more.
  settled.catch(() => {});
  if (await orLate(quietMs, settled, () => false)) return;
  await Promise.race([settled, look()]);
}
