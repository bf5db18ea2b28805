import { orLate } from '../../shared/base/deadline.ts';
import { z } from 'zod';
import { jsonText } from '../../shared/base/json.ts';
import { createProjector } from '../../shared/dialects/project.ts';
import { messageOf, RunError, thrownOf } from '../../shared/base/errors.ts';
import type { RunEvent } from '../../shared/contract/event.ts';

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

/** One line of a chat turn. Producers may emit any type; ours are those of the dialect `ndjson-chat`. */
export interface ChatEvent {
  readonly type: string;
  readonly data?: unknown;
}

export const chatTurnIdentity = z.object({
  tenantId: z.string().min(1),
  sessionId: z.string().min(1),
  userId: z.string().min(1),
  turnIndex: z.int().min(0),
});

/** Which turn of whose conversation. Turns are counted from 0. */
export type ChatTurnIdentity = Readonly<z.infer<typeof chatTurnIdentity>>;

/** The same text for the same turn, and never for two. */
export function keyOf({ tenantId, sessionId, userId, turnIndex }: ChatTurnIdentity): string {
  return jsonText([tenantId, sessionId, userId, turnIndex]);
}

/**
 * The events of a run, of an agent in this process for instance, as `handleChatTurn` takes them: in the dialect
 * `ndjson-chat` without its envelope. The turn fails with the run, and when the events end before the run does.
 *
 * @example
 * const hooks = { produce: () => runProducer(createAgent(support).stream(message)), persistAssistantMessage };
 */
export function runProducer(events: AsyncIterable<RunEvent>): ChatTurnProducer {
  let text = '';
  return { stream: chatEvents(events, (final) => (text = final)), finalText: () => text };
}

async function* chatEvents(events: AsyncIterable<RunEvent>, onText: (text: string) => void): AsyncIterable<ChatEvent> {
  const project = createProjector('ndjson-chat', { tenant: '' });
  for await (const event of events) {
    if (event.type === 'run.failed') throw thrownOf(event.error);
    if (event.type === 'run.cancelled') throw new RunError('cancelled', 'the run was cancelled');
    if (event.type === 'run.completed') onText(event.result.text);
    yield* project(event).filter(({ type }) => !type.startsWith('session.run.'));
    if (event.type === 'run.completed') return;
  }
  throw new RunError('internal', 'the run has no answer: its events ended before it did');
}
