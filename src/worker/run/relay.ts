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
export class Relay {
  readonly #parent: Lineage;
  readonly #runId: string;
  readonly #ports: Pick<Ports, 'children' | 'clock' | 'log'>;
  readonly #closed = new Set<Readonly<Record<string, unknown>>>();
  #waiting: ChildEvent[] = [];
  #publishing: Promise<void> | undefined;

  constructor(runId: string, parent: Lineage, ports: Pick<Ports, 'children' | 'clock' | 'log'>) {
    this.#runId = runId;
    this.#parent = parent;
    this.#ports = ports;
  }

  /** Takes events that are in the log of the child, the first one with this number. Returns at once. */
  add(events: readonly OutgoingEvent[], firstSequence: number): void {
    const { expose, depth: childDepth, ancestors } = this.#parent;
    if (ancestors.length === 0 || expose === 'none') return;
    for (const [index, event] of events.entries()) {
      if (isDelta(event.type) || event.type === 'subagent.event') continue;
      if (expose === 'final' && !isTerminal(event)) continue;
      const { timestamp } = event;
      const numbered = { v: eventVersion, sequenceNumber: firstSequence + index, ...event };
      this.#waiting.push({ type: 'subagent.event', timestamp, childRunId: this.#runId, childDepth, event: numbered });
    }
    if (this.#waiting.length > maxWaiting) this.#waiting.splice(0, this.#waiting.length - maxWaiting);
    if (this.#waiting.length > 0) this.#publishing ??= this.#publish();
  }

  /** Resolves when all that was added is published, or dropped. Never rejects. */
  async drained(): Promise<void> {
    await this.#publishing;
  }

  async #publish(): Promise<void> {
    // What is written together is published together.
    await Promise.resolve();
    while (this.#waiting.length > 0) {
      const events = this.#waiting.splice(0);
      for (const stamp of this.#parent.ancestors) if (!this.#closed.has(stamp)) await this.#publishTo(stamp, events);
    }
    this.#publishing = undefined;
  }

  async #publishTo(stamp: Readonly<Record<string, unknown>>, events: readonly ChildEvent[]): Promise<void> {
    const { children, clock, log } = this.#ports;
    for (let attempt = 1; ; attempt++) {
      try {
        if (!(await children.relay(stamp, events))) this.#closed.add(stamp);
        return;
      } catch (err) {
        if (attempt === tries) {
          log.warn({ err, parent: stamp['runId'] }, 'events were not published to a parent');
          return;
        }
        await clock.sleep(retryMs * attempt);
      }
    }
  }
}
