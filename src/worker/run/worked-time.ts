import type { Clock } from '../../shared/base/clock.ts';

/**
 * How long a run has been on a worker, in whole milliseconds: what earlier segments have recorded, and this one since its
 * claim. A segment that crashed counts up to its last commit, which is all that anybody knows of it. Time without a worker
 * (in a queue, suspended, between a crash and the next claim) is not in it.
 */
export function workedTime(beforeMs: number, clock: Pick<Clock, 'monotonic'>): () => number {
  const claimedMs = clock.monotonic();
  return () => beforeMs + Math.max(0, Math.round(clock.monotonic() - claimedMs));
}
