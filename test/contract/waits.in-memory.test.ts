import { systemClock } from '../../src/shared/base/clock.ts';
import type { RunEvent } from '../../src/shared/contract/event.ts';
import { InMemoryRuns } from '../../src/worker/local/stores/in-memory-runs.ts';
import { inMemoryWaits } from '../../src/worker/local/stores/in-memory-waits.ts';
import { decisionsContract, type DecisionsWorld } from './decisions.ts';
import { waitsContract } from './waits.ts';

async function makeWorld(): Promise<DecisionsWorld> {
  const listeners = new Map<string, (readonly RunEvent[])[]>();
  let passedMs = 0;
  const runs = new InMemoryRuns(systemClock, (runId, events) => {
    listeners.get(runId)?.push(events);
  });
  return {
    runs,
    waits: inMemoryWaits(runs, { ...systemClock, now: () => Date.now() + passedMs }),
    async pass(ms) {
      passedMs += ms;
    },
    now: async () => Date.now(),
    decide: async (runId, decide) => runs.decide(runId, decide),
    decisions: async (runId) => runs.decisions(runId),
    seed: async (record) => runs.create(record),
    cancel: async (runId, cancel) => void runs.cancel(runId, cancel),
    journal: async (runId) => runs.save(runId)?.entries ?? [],
    events: async (runId) => runs.events(runId),
    async live(runId) {
      const groups: (readonly RunEvent[])[] = [];
      listeners.set(runId, groups);
      return groups;
    },
  };
}

waitsContract('In memory', makeWorld);
decisionsContract('In memory', makeWorld);
