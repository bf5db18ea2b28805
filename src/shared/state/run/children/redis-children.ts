import { startChildren, stopRuns, tellEvents, tellParent, type Family } from './children.ts';
import { legibleRecord } from '../../../contract/legible-record.ts';
import { redisError } from '../../errors.ts';
import type { Children } from './children-port.ts';

/** Runs that work for other runs, in Redis. */
export function redisChildren(family: Family): Children {
  const { place } = family;
  const reach = async <T>(doing: string, work: () => Promise<T>): Promise<T> =>
    await work().catch((error: unknown) => {
      throw redisError(error, doing);
    });
  return {
    start: (children, group) => reach('start of runs below', () => startChildren(children, family, group)),
    stop: (runIds, cancel) => reach('stop of runs below', () => stopRuns(runIds, cancel, family)),
    ended: (runId) =>
      reach(`end of run ${runId}`, async () => {
        const hash = await place.redis.hgetall(place.keys.run(runId));
        if (hash['parent'] !== undefined) await tellParent(legibleRecord(hash), family);
      }),
    tell: (stamp, events) => reach('events of a run below', () => tellEvents(stamp, events, place)),
  };
}
