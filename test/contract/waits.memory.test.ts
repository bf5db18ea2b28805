import { systemClock } from '../../src/shared/clock.ts';
import type { RunEvent } from '../../src/shared/event.ts';
import { MemoryRuns } from '../../src/worker/stores/memory-runs.ts';
import { memoryWaits } from '../../src/worker/stores/memory-waits.ts';
import { waitsContract } from './waits.ts';

waitsContract('Memory', async () => {
  const listeners = new Map<string, (readonly RunEvent[])[]>();
  const runs = new MemoryRuns(systemClock, (runId, events) => {
    listeners.get(runId)?.push(events);
  });
  return {
    runs,
    waits: memoryWaits(runs, systemClock),
    now: async () => Date.now(),
    seed: async (record) => runs.create(record),
    cancel: async (runId, cancel) => void runs.cancel(runId, cancel),
    events: async (runId) => runs.events(runId),
    async live(runId) {
      const groups: (readonly RunEvent[])[] = [];
      listeners.set(runId, groups);
      return groups;
    },
  };
});
