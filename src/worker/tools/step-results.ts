import type { EventBody } from '../../shared/event.ts';
import type { JournalEntry } from '../../shared/journal.ts';
import type { StepCall } from './call.ts';

type Write = (entries: readonly JournalEntry[]) => Promise<void>;

/**
 * Passes the results of a step on: each into the journal as soon as it is there, what is ready together in one write,
 * one write at a time; their events in the order of the calls, whatever finishes first.
 */
export class StepResults {
  readonly #emit: (event: EventBody) => void;
  readonly #record: Write;
  readonly #onLost: (error: unknown) => void;
  /** By place of the call; `null` is a place that has nothing to tell. */
  readonly #events: (EventBody | null | undefined)[] = [];
  #nextEvent: number;
  #waiting: JournalEntry[] = [];
  #writing: Promise<void> | undefined;
  #lost: { readonly error: unknown } | undefined;

  /**
   * `onLost` is told at once when a write fails. `eventOf` gives the event of a result that an earlier worker recorded:
   * those before the first open call were told by that worker, those after it still wait for their turn.
   */
  constructor(
    calls: readonly StepCall[],
    host: { emit(event: EventBody): void; record: Write },
    eventOf: (call: StepCall) => EventBody | null,
    onLost: (error: unknown) => void,
  ) {
    this.#emit = (event) => host.emit(event);
    this.#record = (entries) => host.record(entries);
    this.#onLost = onLost;
    const firstOpen = calls.findIndex((call) => call.status !== 'called');
    this.#nextEvent = firstOpen === -1 ? calls.length : firstOpen;
    for (const call of calls) if (call.status === 'called') this.#events[call.index] = call.told ? null : eventOf(call);
  }

  /** The event of a call, or null when it has none, and its entry if it has a result. */
  settle(index: number, event: EventBody | null, entry?: JournalEntry): void {
    this.#events[index] = event;
    for (let ready = this.#events[this.#nextEvent]; ready !== undefined; ready = this.#events[this.#nextEvent]) {
      if (ready) this.#emit(ready);
      this.#nextEvent++;
    }
    if (!entry) return;
    this.#waiting.push(entry);
    this.#writing ??= this.#drain();
  }

  /** Something of this step cannot be recorded: `finish` throws the first such error, and nothing more is written. */
  lose(error: unknown): void {
    if (this.#lost) return;
    this.#lost = { error };
    this.#onLost(error);
  }

  /** Resolves when everything is written; throws the error of the write that failed. */
  async finish(): Promise<void> {
    await this.#writing;
    if (this.#lost) throw this.#lost.error;
  }

  async #drain(): Promise<void> {
    // One turn of the microtask queue, so that results of the same moment share a write.
    await Promise.resolve();
    try {
      while (this.#waiting.length > 0 && !this.#lost) await this.#record(this.#waiting.splice(0));
    } catch (error) {
      this.lose(error);
    } finally {
      this.#writing = undefined;
    }
  }
}
