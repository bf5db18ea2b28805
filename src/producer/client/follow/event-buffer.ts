import type { RunEvent } from '../../../shared/contract/event.ts';
import type { Listener } from './event-hub.ts';
import { untilStopped } from '../stop.ts';

/**
 * What one subscriber has not taken yet. Bounded: when the subscriber is too slow everything is dropped and `missed`
 * is set; the log still has it.
 */
export class EventBuffer implements Listener {
  readonly #capacity: number;
  #events: RunEvent[] = [];
  #missed = false;
  #wake: (() => void) | undefined;

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  onEvents(events: readonly RunEvent[]): void {
    if (this.#missed) return;
    if (this.#events.length + events.length > this.#capacity) this.onSilence();
    else this.#events.push(...events);
    this.#wake?.();
  }

  /** What is here may not be everything, so it is worth nothing. */
  onSilence(): void {
    this.#events = [];
    this.#missed = true;
    this.#wake?.();
  }

  /** Takes everything that has come; and whether something may be missing, which is forgotten by asking. */
  take(): { readonly events: readonly RunEvent[]; readonly missed: boolean } {
    const taken = { events: this.#events, missed: this.#missed };
    this.#events = [];
    this.#missed = false;
    return taken;
  }

  /** Resolves as soon as there is something to take, or the signal aborts. One caller at a time. */
  async filled(stop: AbortSignal): Promise<void> {
    if (this.#missed || this.#events.length > 0) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#wake = resolve;
    await untilStopped(promise, stop);
    this.#wake = undefined;
  }
}
