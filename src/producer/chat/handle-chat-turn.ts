import type { z } from 'zod';
import { invalid } from '../../shared/base/problems.ts';
import {
  chatTurnIdentity,
  keyOf,
  type ChatTurnIdentity,
  callHook,
  type ChatTurnHooks,
  type ChatTurnLog,
} from './hooks.ts';
import { runChatTurn } from './run-turn.ts';
import { TurnLines } from './turn-lines.ts';
import { createInMemoryChatTurns, type ChatTurnStore } from './turn-store.ts';

export interface HandleChatTurnInput {
  readonly identity: ChatTurnIdentity;
  readonly hooks: ChatTurnHooks;
  /** Keeps a serverless host alive until the turn has ended, traces included, whatever becomes of the body. */
  readonly waitUntil?: (work: Promise<unknown>) => void;
  readonly log?: ChatTurnLog;
  /** Where finished turns are kept. Default: in the memory of this process, up to 1,000 turns and 16 MiB. */
  readonly turns?: ChatTurnStore;
  /** Longest wait for one call of a hook other than `produce`. Default 30,000. */
  readonly hookTimeoutMs?: number;
}

export interface ChatTurnResult {
  /** NDJSON: one `{type, data?}` a line. Always ends, never with an error. */
  readonly body: ReadableStream<Uint8Array>;
  readonly contentType: 'application/x-ndjson';
}

interface RunningTurn {
  readonly lines: TurnLines;
  readonly ended: Promise<void>;
}

// Calls know nothing of each other, and yet the second call for a turn has to find the first.
const turnsOfThisProcess = createInMemoryChatTurns();
const runningTurns = new WeakMap<ChatTurnStore, Map<string, RunningTurn>>();

/**
 * Streams one turn of a conversation as NDJSON, in any framework: `session.run.started`, the events of the producer as
 * they are, then `session.run.completed`, or `error` and `session.run.failed`. The answer is stored with
 * `persistAssistantMessage` before the turn is completed.
 *
 * The same identity again does not produce and store again: it joins the turn while it goes on, and gets the finished
 * one, with `replayed: true` in the first and the last line. A turn that failed, or whose answer could not be stored, is
 * produced again. A body that is read slowly slows the producer down; one that is cancelled, or not read at all, does not
 * keep the turn from its end. Needs no Redis. Never throws.
 *
 * @example
 * const { body, contentType } = handleChatTurn({
 *   identity: { tenantId: 'shop', sessionId: 's-1', userId: 'kim', turnIndex: 0 },
 *   hooks: {
 *     produce: async () => (await mill.chat({ agent: 'support', message, sessionId: 's-1', turnIndex: 0 })).producer(),
 *     persistAssistantMessage: ({ finalText }) => messages.save('s-1', 0, finalText),
 *   },
 * });
 * return new Response(body, { headers: { 'content-type': contentType } });
 */
export function handleChatTurn(input: HandleChatTurnInput): ChatTurnResult {
  return { body: bodyOf(input), contentType: 'application/x-ndjson' };
}

function bodyOf(input: HandleChatTurnInput): ReadableStream<Uint8Array> {
  const { turns = turnsOfThisProcess } = input;
  const identity = chatTurnIdentity.safeParse(input.identity);
  if (!identity.success) return refuse(identity.error);
  const running = runningIn(turns).get(keyOf(identity.data));
  return running ? join(running, input) : begin(identity.data, turns, input);
}

function begin(identity: ChatTurnIdentity, turns: ChatTurnStore, input: HandleChatTurnInput) {
  const { hooks, log, waitUntil, hookTimeoutMs = 30_000 } = input;
  const lines = new TurnLines();
  const turn = { identity, hooks, turns, lines, hookOptions: { log, hookTimeoutMs }, isReplay: false };
  const body = lines.body(() => turn.isReplay);
  const running = runningIn(turns);
  const key = keyOf(identity);
  const ended = runChatTurn(turn, waitUntil !== undefined).finally(() => running.delete(key));
  running.set(key, { lines, ended });
  if (waitUntil) void callHook('waitUntil', () => waitUntil(ended), turn.hookOptions);
  return body;
}

/** Once its beginning is gone a turn can only be replayed when it has ended. */
function join({ lines, ended }: RunningTurn, input: HandleChatTurnInput): ReadableStream<Uint8Array> {
  if (lines.isWhole) return lines.body(() => true);
  return ReadableStream.from(
    (async function* () {
      await ended;
      yield* bodyOf(input);
    })(),
  );
}

function refuse(error: z.ZodError): ReadableStream<Uint8Array> {
  const { message } = invalid('validation', 'the identity of the turn is not valid', error);
  const lines = new TurnLines();
  lines.add({ type: 'error', data: { message } });
  lines.add({ type: 'session.run.failed', data: { message } });
  lines.end();
  return lines.body();
}

function runningIn(turns: ChatTurnStore): Map<string, RunningTurn> {
  const running = runningTurns.get(turns) ?? new Map<string, RunningTurn>();
  runningTurns.set(turns, running);
  return running;
}
