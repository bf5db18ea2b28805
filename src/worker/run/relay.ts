import { eventVersion, isDelta, isTerminal } from '../../shared/contract/event.ts';
import type { Lineage } from '../../shared/contract/run.ts';
import type { Ports } from './ports.ts';
import type { Children } from '../../shared/state/run/children/children-port.ts';
import type { OutgoingEvent } from '../../shared/state/run/run-store.ts';

/** What the runs above are told while one of them cannot be reached; the oldest go first. */
const maxWaiting = 1_000;
const tries = 3;
const retryMs = 100;

type Told = Parameters<Children['relay']>[1][number];

/**
 * Tells the logs of the runs above what this run does, in order and without holding it up. They are wrapped copies: a
 * subscriber that misses one finds it in the log of this run.
 */
export class Relay {
  readonly #parent: Lineage;
  readonly #runId: string;
  readonly #ports: Pick<Ports, 'children' | 'clock' | 'log'>;
  readonly #deaf = new Set<Readonly<Record<string, unknown>>>();
  #waiting: Told[] = [];
  #telling: Promise<void> | undefined;

  constructor(runId: string, parent: Lineage, ports: Pick<Ports, 'children' | 'clock' | 'log'>) {
    this.#runId = runId;
    this.#parent = parent;
    this.#ports = ports;
  }

  /** Takes events that are in the log of this run, the first one with this number. Returns at once. */
  add(events: readonly OutgoingEvent[], firstSequence: number): void {
    const { expose, depth: childDepth, above } = this.#parent;
    if (above.length === 0 || expose === 'none') return;
    for (const [index, event] of events.entries()) {
      if (isDelta(event.type) || event.type === 'subagent.event') continue;
      if (expose === 'final' && !isTerminal(event)) continue;
      const { timestamp } = event;
      const numbered = { v: eventVersion, sequenceNumber: firstSequence + index, ...event };
      this.#waiting.push({ type: 'subagent.event', timestamp, childRunId: this.#runId, childDepth, event: numbered });
    }
    if (this.#waiting.length > maxWaiting) this.#waiting.splice(0, this.#waiting.length - maxWaiting);
    if (this.#waiting.length > 0) this.#telling ??= this.#tell();
  }

  /** Resolves when all that was added has been told, or given up. Never rejects. */
  async drained(): Promise<void> {
    await this.#telling;
  }

  async #tell(): Promise<void> {
    // What is written together is told together.
    await Promise.resolve();
    while (this.#waiting.length > 0) {
      const events = this.#waiting.splice(0);
      for (const stamp of this.#parent.above) if (!this.#deaf.has(stamp)) await this.#tellOne(stamp, events);
    }
    this.#telling = undefined;
  }

  async #tellOne(stamp: Readonly<Record<string, unknown>>, events: readonly Told[]): Promise<void> {
    const { children, clock, log } = this.#ports;
    for (let attempt = 1; ; attempt++) {
      try {
        if (!(await children.relay(stamp, events))) this.#deaf.add(stamp);
        return;
      } catch (err) {
        if (attempt === tries) {
          log.warn({ err, above: stamp['runId'] }, 'a run above was not told of events');
          return;
        }
        await clock.sleep(retryMs * attempt);
      }
    }
  }
}
