import type { EventBody } from '../../../shared/contract/event.ts';
import type { JournalEntry, JournalEntryOf } from '../../../shared/contract/journal/journal.ts';
import type { StepCall } from '../../../shared/contract/journal/turn-state.ts';

type Result = JournalEntryOf<'tool_result'>;

interface StepResultsPorts {
  /** Writes results together with their events: all of it, or nothing. */ readonly record: (
    entries: readonly JournalEntry[],
    events: readonly EventBody[],
  ) => Promise<void>;
  /** The event of a result that an earlier worker recorded and whose turn had not come by then. */ readonly eventOf: (
    call: StepCall,
  ) => EventBody | null;
  /** Called at once when a write fails. */ readonly onLost: (error: unknown) => void;
}

/**
 * Passes the results of a step on: each into the journal as soon as it is there, what is ready together in one write,
 * one write at a time; their events in the order of the calls, whatever finishes first. An event is never published
 * without its entry, so that a worker that recovers the run publishes exactly those that are missing.
 */
export function stepResults(calls: readonly StepCall[], { record, eventOf, onLost }: StepResultsPorts) {
  /** By index of the call; `null` is a call without an event. */
  const events: (EventBody | null | undefined)[] = [];
  let nextEvent = 0;
  /** Ends whose turn has come; they leave with the next write. */
  const dueEnds: { readonly index: number; readonly event: EventBody }[] = [];
  const waiting: { readonly entry: Result; readonly before: readonly EventBody[] }[] = [];
  let writing: Promise<void> | undefined;
  let lost: { readonly error: unknown } | undefined;
  for (const call of calls)
    if (call.status === 'tool_result') events[call.index] = call.endPublished ? null : eventOf(call);

  /** Something of this step cannot be recorded: `finish` throws the first such error, and nothing more is written. */
  function lose(error: unknown): void {
    if (lost) return;
    lost = { error };
    waiting.length = 0;
    onLost(error);
  }

  async function drain(): Promise<void> {
    // One turn of the microtask queue, so that results of the same moment share a write.
    await Promise.resolve();
    try {
      while (waiting.length > 0) {
        const results = waiting.splice(0);
        const due = dueEnds.splice(0);
        const entries = withEnds(
          results.map(({ entry }) => entry),
          due.map(({ index }) => index),
        );
        await record(entries, [...results.flatMap(({ before }) => before), ...due.map(({ event }) => event)]);
      }
    } catch (error) {
      lose(error);
    } finally {
      writing = undefined;
    }
  }

  return {
    lose,
    /**
     * The event of a call's end, or null when it has none, and its entry if it has a result. The events `before` it
     * are published with its entry.
     */
    settle(index: number, event: EventBody | null, entry?: Result, before: readonly EventBody[] = []): void {
      events[index] = event;
      for (let ready = events[nextEvent]; ready !== undefined; ready = events[nextEvent]) {
        if (ready) dueEnds.push({ index: nextEvent, event: ready });
        nextEvent++;
      }
      if (!entry || lost) return;
      waiting.push({ entry, before });
      writing ??= drain();
    },
    /** Ends that no write has taken: they leave with what ends the step instead. */
    takeDue: (): readonly EventBody[] => dueEnds.splice(0).map(({ event }) => event),
    /** Resolves when everything is written; throws the error of the write that failed. */
    async finish(): Promise<void> {
      await writing;
      if (lost) throw lost.error;
    },
  };
}
export type StepResults = ReturnType<typeof stepResults>;

/** Names the ends that are published with these results, where it is not just their own. */
function withEnds(results: readonly Result[], published: readonly number[]): readonly Result[] {
  const own = new Set(results.map(({ index }) => index));
  if (published.length === own.size && published.every((index) => own.has(index))) return results;
  return results.map((result, position) => ({ ...result, ends: position === 0 ? [...published] : [] }));
}
