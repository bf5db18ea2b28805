import { createMemoryPorts } from '../../src/worker/stores/memory.ts';
import { childrenContract, type ChildrenWorld } from './children.ts';

async function makeWorld(): Promise<ChildrenWorld> {
  const ports = createMemoryPorts();
  return {
    ...ports,
    seed: async (record) => ports.create(record),
    cancel: async (runId, cancel) => void ports.cancel(runId, cancel),
    journal: async (runId) => ports.save(runId)?.entries ?? [],
    events: async (runId) => ports.events(runId),
    live: async () => [],
  };
}

childrenContract('Memory', makeWorld);
