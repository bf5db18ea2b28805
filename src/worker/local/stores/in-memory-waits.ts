import type { Clock } from '../../../shared/base/clock.ts';
import type { Waits, Timers } from '../../../shared/state/run/waits/waits.ts';
import type { InMemoryRuns } from './in-memory-runs.ts';
import { dueLeaseMs } from '../../../shared/state/run/rules.ts';

/** The waits of one process. */
export function inMemoryWaits(runs: Pick<InMemoryRuns, 'resume' | 'hasDecisions'>, clock: Clock): Waits {
  const timers = inMemoryTimers(clock);
  return {
    ...timers,
    async resume(runId, resumption) {
      const resumed = runs.resume(runId, resumption);
      if (resumed) await timers.clear(runId);
      return resumed;
    },
    async hasDecisions(runId) {
      return runs.hasDecisions(runId);
    },
  };
}

/** Timers of one process, by the given clock. */
export function inMemoryTimers(clock: Clock): Timers {
  const timers = new Map<string, number>();
  return {
    async at(runId, dueMs) {
      timers.set(runId, dueMs);
    },
    async clear(runId) {
      timers.delete(runId);
    },
    async due(limit) {
      const now = clock.now();
      const due = [...timers].filter(([, at]) => at <= now).sort(([, a], [, b]) => a - b);
      const taken = due.slice(0, limit).map(([runId]) => runId);
      for (const runId of taken) timers.set(runId, now + dueLeaseMs);
      return taken;
    },
  };
}
