import type { CancelRequest } from '../../../contract/control.ts';
import type { EventBody } from '../../../contract/event.ts';
import { type RunGroup, startChildren, stopRuns, relayEvents, notifyParent, type Family } from './children.ts';
import type { NewRun } from '../create-runs.ts';
import { legibleRecord } from '../../../contract/legible-record.ts';
import { withNamedErrors } from '../../errors.ts';

/**
 * Runs that work for other runs. A child is a run of its own, on any worker; its parent is suspended meanwhile. Kept in Redis by `redisChildren`, in memory by `local/stores/in-memory-waits.ts`; both pass
 * `test/contract/children.ts`. Throws `queue_unavailable` when the store cannot be reached.
 */
export interface Children {
  /**
   * Creates these children, each at most once, and queues those that have not begun. The parent is notified again of one that has
   * ended. Each end resumes the parent; with a `group` it resumes when all have ended, later ones included, or when the `first`
   * has completed. A cancel of the parent keeps later children from beginning.
   */
  start(children: readonly NewRun[], group?: RunGroup): Promise<void>;
  /** Asks runs and their children to stop. Returns the ones that do not exist. */
  stop(runIds: readonly string[], cancel: CancelRequest): Promise<readonly string[]>;
  /** Notifies the parent of how this run has ended, which may end its wait. Again changes nothing. */
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
