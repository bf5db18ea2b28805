import { RunError } from '../base/errors.ts';
import { orLate } from '../base/or-late.ts';
import { redisError } from './errors.ts';

/** Nobody who looks after many runs waits longer than this for the node of Redis that one of them is on. */
const patienceMs = 3_000;

/**
 * The answer of Redis, or `queue_unavailable` when there is none in time. Work that did not answer goes on by itself: its outcome is
 * unknown, as with a lost reply.
 */
export async function inTime<T>(work: Promise<T>, doing: string): Promise<T> {
  try {
    return await orLate(patienceMs, work, () => {
      throw new RunError('queue_unavailable', `Redis did not answer within ${patienceMs} ms: ${doing}`);
    });
  } catch (error) {
    throw redisError(error, doing);
  }
}
