import { isTerminal, type PendingView, type RunEvent } from '../../../shared/contract/event.ts';

/** What a run and those that work for it wait for, by run. */
export type Waits = Map<string, readonly PendingView[]>;

/** Takes note of what an event says about waits: of its own run, or of one below. */
export function noteWaits(waits: Waits, event: RunEvent): void {
  if (event.type === 'subagent.event') return noteWaits(waits, event.event as RunEvent);
  if (event.type === 'run.suspended') waits.set(event.runId, event.pending);
  else if (event.type === 'run.resumed' || event.type === 'run.started' || isTerminal(event)) waits.delete(event.runId);
}

/** The first thing of this kind that a run waits for. */
export function firstWait(
  waits: Waits,
  suits: (item: PendingView) => boolean,
): { readonly runId: string; readonly item: PendingView } | undefined {
  for (const [runId, pending] of waits) {
    const item = pending.find(suits);
    if (item) return { runId, item };
  }
  return undefined;
}
