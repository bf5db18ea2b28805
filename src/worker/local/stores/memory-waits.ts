import type { Clock } from '../../../shared/base/clock.ts';
import type { Waits } from '../../../shared/state/run/waits/waits.ts';
import type { MemoryRuns } from './memory-runs.ts';
import { memoryTimers } from './memory-timers.ts';

/** The waits of one process. */
export function memoryWaits(runs: Pick<MemoryRuns, 'resume' | 'hasDecisions'>, clock: Clock): Waits {
  const timers = memoryTimers(clock);
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
