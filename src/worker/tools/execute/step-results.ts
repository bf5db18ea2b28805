import type { EventBody } from '../../../shared/contract/event.ts';
import type { JournalEntry, JournalEntryOf } from '../../../shared/contract/journal/journal.ts';
import type { StepCall } from '../../../shared/contract/journal/turn-state.ts';

type Result = JournalEntryOf<'tool_result'>;

/** Writes results together with their events: all of it, or nothing. */
type Write = (entries: readonly JournalEntry[], events: readonly EventBody[]) => Promise<void>;

/**
 * Passes the results of a step on: each into the journal as soon as it is there, what is ready together in one write,
 * one write at a time; their events in the order of the calls, whatever finishes first. An event is never published
 * without its entry, so that a worker that recovers the run publishes exactly those that are missing.
 */
export class StepResults {
  readonly #record: Write;
  readonly #onLost: (error: unknown) => void;
  /** By index of the call; `null` is a call without an event. */
  readonly #events: (EventBody | null | undefined)[] = [];
  #nextEvent = 0;
  /** Ends whose turn has come; they leave with the next write. */
  #due: { readonly index: number; readonly event: EventBody }[] = [];
  #waiting: { readonly entry: Result; readonly before: readonly EventBody[] }[] = [];
  #writing: Promise<void> | undefined;
  #lost: { readonly error: unknown } | undefined;

  /**
   * `onLost` is called at once when a write fails. `eventOf` gives the event of a result that an earlier worker recorded and
   * whose turn had not come by then.
   */
  constructor(
    calls: readonly StepCall[],
    record: Write,
    eventOf: (call: StepCall) => EventBody | null,
    onLost: (error: unknown) => void,
  ) {
    this.#record = record;
    this.#onLost = onLost;
    for (const call of calls)
      if (call.status === 'tool_result') this.#events[call.index] = call.endPublished ? null : eventOf(call);
  }

  /**
   * The event of a call's end, or null when it has none, and its entry if it has a result. The events `before` it
   * are published with its entry.
   */
  settle(index: number, event: EventBody | null, entry?: Result, before: readonly EventBody[] = []): void {
    this.#events[index] = event;
    for (let ready = this.#events[this.#nextEvent]; ready !== undefined; ready = this.#events[this.#nextEvent]) {
      if (ready) this.#due.push({ index: this.#nextEvent, event: ready });
      this.#nextEvent++;
    }
    if (!entry) return;
    this.#waiting.push({ entry, before });
    this.#writing ??= this.#drain();
  }

  /** Ends that no write has taken: they leave with what ends the step instead. */
  takeDue(): readonly EventBody[] {
    return this.#due.splice(0).map(({ event }) => event);
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
      while (this.#waiting.length > 0 && !this.#lost) {
        const results = this.#waiting.splice(0);
        const due = this.#due.splice(0);
        const entries = withEnds(
          results.map(({ entry }) => entry),
          due.map(({ index }) => index),
        );
        await this.#record(entries, [...results.flatMap(({ before }) => before), ...due.map(({ event }) => event)]);
      }
    } catch (error) {
      this.lose(error);
    } finally {
      this.#writing = undefined;
    }
  }
}

/** Names the ends that are published with these results, where it is not just their own. */
function withEnds(results: readonly Result[], published: readonly number[]): readonly Result[] {
  const own = new Set(results.map(({ index }) => index));
  if (published.length === own.size && published.every((index) => own.has(index))) return results;
  return results.map((result, position) => ({ ...result, ends: position === 0 ? [...published] : [] }));
}
