import type { SteeringMessage } from '../../../shared/contract/control.ts';
import { maxHeard } from '../../../shared/state/run/control/steer.ts';
import type { Inbox } from '../../../shared/state/run/control/inbox.ts';

/** What is said to runs of this process. */
export interface MemoryInbox extends Inbox {
  /** False when too much waits already. */
  say(runId: string, message: SteeringMessage): boolean;
}

export function memoryInbox(): MemoryInbox {
  const said = new Map<string, SteeringMessage[]>();
  return {
    say(runId, message) {
      const waiting = said.get(runId) ?? [];
      if (waiting.length >= maxHeard) return false;
      said.set(runId, [...waiting, message]);
      return true;
    },
    heard: async (runId) => said.get(runId) ?? [],
    async drop(runId, ids) {
      const dropped = new Set(ids);
      const left = said.get(runId)?.filter(({ id }) => !dropped.has(id)) ?? [];
      if (left.length > 0) said.set(runId, left);
      else said.delete(runId);
    },
  };
}
