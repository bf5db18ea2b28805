import { eventVersion, isDelta, isTerminal } from '../../shared/contract/event.ts';
import type { Lineage } from '../../shared/contract/run.ts';
import type { Ports } from './ports.ts';
import type { Children } from '../../shared/state/run/children/children.ts';
import type { OutgoingEvent } from '../../shared/state/script.ts';

/** Events that wait while a parent cannot be reached; the oldest are dropped first. */
const maxWaiting = 1_000;
const tries = 3;
const retryMs = 100;

type ChildEvent = Parameters<Children['relay']>[1][number];

/**
 * Publishes the events of a child to the logs of its parents, in order and without delaying the child. They are wrapped
 * copies: a subscriber that misses one finds it in the log of the child.
 */
export function relayFor(runId: string, parent: Lineage, ports: Pick<Ports, 'children' | 'clock' | 'log'>) {
  const { children, clock, log } = ports;
  const closed = new Set<Readonly<Record<string, unknown>>>();
  let waiting: ChildEvent[] = [];
  let publishing: Promise<void> | undefined;

  async function publish(): Promise<void> {
    // What is written together is published together.
    await Promise.resolve();
    while (waiting.length > 0) {
      const events = waiting.splice(0);
      for (const stamp of parent.ancestors) if (!closed.has(stamp)) await publishTo(stamp, events);
    }
    publishing = undefined;
  }

  async function publishTo(stamp: Readonly<Record<string, unknown>>, events: readonly ChildEvent[]): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        if (!(await children.relay(stamp, events))) closed.add(stamp);
        return;
      } catch (err) {
        if (attempt === tries)
          return log.warn({ err, parent: stamp['runId'] }, 'events were not published to a parent');
        await clock.sleep(retryMs * attempt);
      }
    }
  }

  return {
    /** Takes events that are in the log of the child, the first one with this number. Returns at once. */
    add(events: readonly OutgoingEvent[], firstSequence: number): void {
      const { expose, depth: childDepth, ancestors } = parent;
      if (ancestors.length === 0 || expose === 'none') return;
      for (const [index, event] of events.entries()) {
        if (isDelta(event.type) || event.type === 'subagent.event') continue;
        if (expose === 'final' && !isTerminal(event)) continue;
        const { timestamp } = event;
        const numbered = { v: eventVersion, sequenceNumber: firstSequence + index, ...event };
        waiting.push({ type: 'subagent.event', timestamp, childRunId: runId, childDepth, event: numbered });
      }
      waiting = waiting.slice(-maxWaiting);
      if (waiting.length > 0) publishing ??= publish();
    },
    /** Resolves when all that was added is published, or dropped. Never rejects. */
    drained: async () => await publishing,
  };
}
export type Relay = ReturnType<typeof relayFor>;
