import type { RunEvent } from '../../src/shared/contract/event.ts';
import { createInMemoryPorts } from '../../src/worker/local/stores/in-memory.ts';
import { runStoreContract } from './run-store.ts';

runStoreContract('In memory', async () => {
  const ports = createInMemoryPorts();
  return {
    runs: ports.runs,
    seed: async (record) => ports.create(record),
    cancel: async (runId, cancel) => void ports.cancel(runId, cancel),
    journal: async (runId) => ports.save(runId)?.entries ?? [],
    events: async (runId) => ports.events(runId),
    async live(runId) {
      const groups: (readonly RunEvent[])[] = [];
      ports.onEvents((of, events) => of === runId && groups.push(events));
      return groups;
    },
  };
});
