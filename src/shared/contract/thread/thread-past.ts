import type { Message } from '../message.ts';
import { summaryMessage } from './summary-message.ts';
import type { ContextMessage, ThreadContext } from './thread-context.ts';

/** A thread as the turn of a run finds it. */
export interface ThreadPast {
  /** The conversation before the user's message. */
  readonly messages: readonly Message[];
  /** Numbers of the entries that it comes from. */
  readonly numbers: readonly number[];
  /** How many words of this run's agents and tools stand there already, because it is driven again. */
  readonly logged: number;
}

/** What the run begins with: the conversation without its own part. */
export function pastOf({ summary, messages }: ThreadContext, runId: string): ThreadPast {
  const own = messages.filter((message) => message.runId === runId);
  const others = messages.filter((message) => message.runId !== runId && !isEmpty(message));
  return {
    messages: [
      ...(summary ? [summaryMessage(summary.text, summary.sensitivity)] : []),
      ...others.map(({ message }) => message),
    ],
    numbers: [...(summary ? [summary.upTo] : []), ...others.map(({ seq }) => seq)],
    logged: own.filter(({ message, byRuntime }) => message.role !== 'user' && !byRuntime).length,
  };
}

/** An answer without words is there for people; models refuse to be sent one. */
function isEmpty({ message }: ContextMessage): boolean {
  return message.role === 'assistant' && message.parts.every((part) => part.type === 'text' && part.text === '');
}
