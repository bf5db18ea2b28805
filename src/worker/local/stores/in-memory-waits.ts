import { childEndOf, childrenOf, parentEnded, type Children } from '../../../shared/state/run/children/children.ts';
import type { Clock } from '../../../shared/base/clock.ts';
import type { CancelRequest } from '../../../shared/contract/control.ts';
import type { OutgoingEvent } from '../../../shared/state/script.ts';
import { queuedRecord } from './in-memory-row.ts';
import type { InMemoryRuns } from './in-memory-runs.ts';
import { type Waits, type Timers, dueLeaseMs } from '../../../shared/state/run/waits/waits.ts';

/** Runs that work for other runs, in one process. `drive` runs them. */
export function inMemoryChildren(
  runs: InMemoryRuns,
  clock: Clock,
  onCancel: (runId: string, cancel: CancelRequest) => void,
): Children {
  const parentCancel = async (runId = ''): Promise<CancelRequest | undefined> => {
    const parent = await runs.load(runId);
    return parent?.endedAt ? parentEnded : (await runs.pendingCancels()).get(runId);
  };
  const children: Children = {
    async start(planned, group) {
      const parentId = planned[0]?.parent?.runId;
      if (group && parentId !== undefined) runs.waitForGroup(parentId, group);
      for (const run of planned) {
        runs.create(queuedRecord(run, clock.now()));
        await children.ended(run.runId);
      }
      const cancel = await parentCancel(parentId);
      const runIds = planned.map(({ runId }) => runId);
      if (cancel) await children.stop(runIds, cancel);
    },
    async stop(runIds, cancel) {
      const gone: string[] = [];
      for (const runId of runIds) {
        const record = await runs.load(runId);
        if (!record) gone.push(runId);
        else if (record.endedAt) await children.ended(runId);
        else {
          runs.cancel(runId, cancel);
          onCancel(runId, cancel);
          await children.stop(childrenOf(record), cancel);
          // One that waits for others ends after them; any other wait ends here.
          if (childrenOf(record).length === 0) runs.resume(runId, { summary: 'a cancel was asked for' });
        }
      }
      return gone;
    },
    async ended(runId) {
      const record = await runs.load(runId);
      const end =
        record?.parent && record.endedAt ? childEndOf(record, new Date(clock.now()).toISOString()) : undefined;
      const next = end && record?.parent && runs.childEnded(record.parent.runId, end);
      if (next) await children.start([next]);
    },
    async relay(stamp, events) {
      const stamped = events.map((event) => ({ ...stamp, ...event }) as OutgoingEvent);
      return runs.relay(String(stamp['runId']), stamped);
    },
  };
  return children;
}

/** Timers that a process looks at itself. */
export interface InMemoryTimers extends Timers {
  /** When something is to happen to a run, in milliseconds since the epoch; undefined when nothing is. */
  dueOf(runId: string): number | undefined;
}

/** The waits of one process. */
export function inMemoryWaits(runs: InMemoryRuns, clock: Clock): Waits & InMemoryTimers {
  const timers = inMemoryTimers(clock);
  return {
    ...timers,
    async resume(runId, resumption) {
      const resumed = runs.resume(runId, resumption);
      if (resumed) await timers.clear(runId);
      return resumed;
    },
    hasDecisions: async (runId) => runs.hasDecisions(runId),
  };
}

/** Timers of one process, by the given clock. */
export function inMemoryTimers(clock: Clock): InMemoryTimers {
  const timers = new Map<string, number>();
  return {
    async at(runId, dueMs) {
      timers.set(runId, dueMs);
    },
    async clear(runId) {
      timers.delete(runId);
    },
    dueOf: (runId) => timers.get(runId),
    async due(limit) {
      const now = clock.now();
      const due = [...timers].filter(([, at]) => at <= now).sort(([, a], [, b]) => a - b);
      const taken = due.slice(0, limit).map(([runId]) => runId);
      for (const runId of taken) timers.set(runId, now + dueLeaseMs);
      return taken;
    },
  };
}
