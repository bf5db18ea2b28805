import type { Clock } from '../../shared/clock.ts';
import type { Waits } from '../ports.ts';
import type { MemoryRuns } from './memory-runs.ts';
import { dueLeaseMs } from './rules.ts';

/** The waits of one process: timers by the given clock. */
export function memoryWaits(runs: Pick<MemoryRuns, 'resume' | 'hasDecisions'>, clock: Clock): Waits {
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
    async resume(runId, resumption) {
      const resumed = runs.resume(runId, resumption);
      if (resumed) timers.delete(runId);
      return resumed;
    },
    async hasDecisions(runId) {
      return runs.hasDecisions(runId);
    },
  };
}
