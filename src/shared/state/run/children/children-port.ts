import type { CancelRequest } from '../../../contract/control.ts';
import type { EventBody } from '../../../contract/event.ts';
import { type RunGroup, startChildren, stopRuns, relayEvents, notifyParent, type Family } from './children.ts';
import type { NewRun } from '../create-runs.ts';
import { legibleRecord } from '../../../contract/legible-record.ts';
import { withNamedErrors } from '../../errors.ts';

/**
 * Runs that work for other runs. Each is a run of its own, on whichever worker takes it; the one that it works for is suspended
 * meanwhile. Kept in Redis by `redisChildren`, in memory by `local/stores/in-memory-children.ts`; both pass
 * `test/contract/children.ts`. Throws `queue_unavailable` when the store cannot be reached.
 */
export interface Children {
  /**
   * Creates these runs, each at most once, and queues those that have not begun. One that has ended by now is told to the run
   * that it works for again. That one is woken by each of their ends; with a `group` when all have ended, those included that
   * begin later, or when the `first` has completed. A cancel of it keeps the later ones from beginning.
   */
  start(children: readonly NewRun[], group?: RunGroup): Promise<void>;
  /** Asks runs to stop, and those that work for them. Answers the ones that do not exist. */
  stop(runIds: readonly string[], cancel: CancelRequest): Promise<readonly string[]>;
  /** Tells the run that this one works for how it has ended, which may end its wait. Again changes nothing. */
  ended(runId: string): Promise<void>;
  /**
   * Adds events to the log of a parent, at once while it is suspended, otherwise with its next claim. `stamp` is what each of its
   * events says. False: it has ended and takes no more.
   */
  relay(
    stamp: Readonly<Record<string, unknown>>,
    events: readonly (EventBody & { readonly timestamp: string })[],
  ): Promise<boolean>;
}

/** The children in Redis. */
export function redisChildren(family: Family): Children {
  const { redis, keys } = family.space;
  return withNamedErrors<Children>('children', {
    start: async (children, group) => await startChildren(children, family, group),
    stop: async (runIds, cancel) => await stopRuns(runIds, cancel, family),
    async ended(runId) {
      const hash = await redis.hgetall(keys.run(runId));
      if (hash['parent'] !== undefined) await notifyParent(legibleRecord(hash), family);
    },
    relay: async (stamp, events) => await relayEvents(stamp, events, family.space),
  });
}
