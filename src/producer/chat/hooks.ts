import { orLate } from '../../shared/base/deadline.ts';
import type { ChatEvent, ChatTurnIdentity } from './chat-event.ts';

/** The live side of a turn. */
export interface ChatTurnProducer {
  /** Reaches the client as it is, event by event. When it throws, the turn has failed. */
  readonly stream: AsyncIterable<ChatEvent>;
  /** The text of the answer, asked for once after the stream has ended. Empty: what `accumulate` made counts. */
  finalText(): string | Promise<string>;
}

/** A turn that has its answer. */
export interface AnsweredTurn {
  readonly identity: ChatTurnIdentity;
  /** After `transformFinalText`. */
  readonly finalText: string;
}

/**
 * What a product adds to a turn. Only `produce` can make it fail; whatever another hook throws is logged and goes no
 * further.
 */
export interface ChatTurnHooks {
  /** Begins the answer: `mill.chat(…)`, an agent in this process, or any other stream. */
  produce(): ChatTurnProducer | Promise<ChatTurnProducer>;
  /** Adds an event to the text so far; `undefined` leaves the text as it is. For producers that do not know their text. */
  accumulate?(event: ChatEvent, text: string): string | undefined;
  /** Changes the text that is stored, not what is streamed. When it fails, nothing is stored. */
  transformFinalText?(text: string): string | Promise<string>;
  /** Stores the answer of the assistant. Not called for a turn that failed or is replayed. */
  persistAssistantMessage(turn: AnsweredTurn): void | Promise<void>;
  /** Called after the answer was stored. */
  onTurnComplete?(turn: AnsweredTurn): void | Promise<void>;
  /** Sees every line that is written, the first and the last included, in order. Not called when a turn is replayed. */
  onEvent?(event: ChatEvent): void | Promise<void>;
  /** Sends traces away: with `waitUntil` after the body has ended, else before. */
  traceFlush?(): void | Promise<void>;
}

/** Receives what went wrong in hooks. */
export type ChatTurnLog = (message: string, facts: Readonly<Record<string, unknown>>) => void;

interface HookOptions {
  readonly log?: ChatTurnLog | undefined;
  readonly hookTimeoutMs: number;
}

/** Calls one hook. Never throws, and never takes longer than it may. */
export async function callHook<T>(
  hook: string,
  call: () => T | Promise<T>,
  { log, hookTimeoutMs }: HookOptions,
): Promise<{ readonly done: true; readonly value: T } | { readonly done: false }> {
  const late = () => {
    throw new Error(`no answer within ${hookTimeoutMs} ms`);
  };
  try {
    return { done: true, value: await orLate(hookTimeoutMs, Promise.resolve(call()), late) };
  } catch (error) {
    logTurn(log, 'a hook of a chat turn failed', { hook, error: messageOf(error) });
    return { done: false };
  }
}

/** Logs. A log that throws is a hook like any other. */
export function logTurn(log: ChatTurnLog | undefined, message: string, facts: Readonly<Record<string, unknown>>): void {
  try {
    log?.(message, facts);
  } catch {
    // There is no further log.
  }
}

export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}
