import { createInMemoryPorts } from '../../src/worker/local/stores/in-memory.ts';
import { childrenContract } from './children.ts';
import type { ChildrenWorld } from './children-world.ts';

async function makeWorld(): Promise<ChildrenWorld> {
  const ports = createInMemoryPorts();
  return {
    ...ports,
    seed: async (record) => ports.create(record),
    cancel: async (runId, cancel) => void ports.cancel(runId, cancel),
    journal: async (runId) => ports.save(runId)?.entries ?? [],
    events: async (runId) => ports.events(runId),
    live: async () => [],
  };
}

childrenContract('In memory', makeWorld);
