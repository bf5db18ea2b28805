import { defined } from '../../base/collections.ts';
import { pairEach } from './turn-log.ts';
import type { Message } from '../message.ts';
import type { NumberedEntry, ThreadManifest, ThreadMessage } from './thread.ts';
import { summaryMessage, type SummaryLabels } from './summary-message.ts';

/** A message with the number of the entry that it came from. A result that was missing has that of its call. */
export interface ContextMessage {
  readonly seq: number;
  /** The run that wrote it. */
  readonly runId: string;
  readonly byRuntime?: true;
  readonly byCaller?: true;
  readonly message: ThreadMessage;
}

/** What a model is given of a thread. */
export interface ThreadContext {
  readonly manifest: ThreadManifest;
  /** Stands for everything up to entry `upTo`, which `messages` do not repeat. */
  readonly summary?: SummaryLabels & { readonly seq: number; readonly text: string; readonly upTo: number };
  readonly messages: readonly ContextMessage[];
  /** What is written next has a higher number. */
  readonly lastNumber: number;
}

/**
 * The conversation after the latest summary among the entries, such that every call has exactly one result, next to it.
 * Entries before that summary are left out.
 */
export function threadContext(
  manifest: ThreadManifest,
  entries: readonly NumberedEntry[],
  lastNumber = entries.at(-1)?.seq ?? 0,
): ThreadContext {
  let summary: ThreadContext['summary'];
  for (const { seq, entry } of entries) {
    if (entry.t === 'summary' && seq > (summary?.seq ?? 0)) {
      const { text, upTo, sensitivity, flow } = entry;
      summary = defined({ seq, text, upTo, sensitivity, flow });
    }
  }
  const upTo = summary?.upTo ?? 0;
  const said = entries.flatMap(({ seq, entry }) =>
    entry.t === 'message' && seq > upTo
      ? [
          defined({
            seq,
            runId: entry.runId,
            message: entry.message,
            byRuntime: entry.byRuntime,
            byCaller: entry.byCaller,
          }),
        ]
      : [],
  );
  const messages = pairEach(
    said,
    ({ message }) => message,
    ({ seq, runId, byRuntime, byCaller }, message) => defined({ seq, runId, message, byRuntime, byCaller }),
  );
  return { manifest, ...(summary && { summary }), messages, lastNumber };
}

/** A thread as the turn of a run finds it. */
interface ThreadPast {
  /** The conversation before the user's message. */
  readonly messages: readonly Message[];
  /** Numbers of the entries that it comes from. */
  readonly numbers: readonly number[];
  /** How many messages of this run's agents and tools the thread has already, because the run is redriven. */
  readonly logged: number;
}

/** What the run begins with: the conversation without its own part. */
export function pastOf({ summary, messages }: ThreadContext, runId: string): ThreadPast {
  const isOwn = (message: ContextMessage) => message.runId === runId && !message.byCaller;
  const own = messages.filter(isOwn);
  const others = messages.filter((message) => !isOwn(message) && !isEmpty(message));
  return {
    messages: [...(summary ? [summaryMessage(summary.text, summary)] : []), ...others.map(({ message }) => message)],
    numbers: [...(summary ? [summary.upTo] : []), ...others.map(({ seq }) => seq)],
    logged: own.filter(({ message, byRuntime }) => message.role !== 'user' && !byRuntime).length,
  };
}

/** An answer without words is there for people; models refuse to be sent one. */
function isEmpty({ message }: ContextMessage): boolean {
  return message.role === 'assistant' && message.parts.every((part) => part.type === 'text' && part.text === '');
}
