import { messageOf, RunError } from '../../shared/base/errors.ts';
import { cutText, Redactor } from '../../shared/base/redact.ts';
import {
  type ChatEvent,
  type ChatTurnIdentity,
  callHook,
  logTurn,
  type AnsweredTurn,
  type ChatTurnHooks,
  type ChatTurnLog,
} from './hooks.ts';
import type { TurnLines } from './turn-lines.ts';
import type { ChatTurnStore, FinishedTurn } from './turn-store.ts';

/** A turn on its way, with its defaults in place. */
interface Turn {
  readonly identity: ChatTurnIdentity;
  readonly hooks: ChatTurnHooks;
  readonly turns: ChatTurnStore;
  readonly lines: TurnLines;
  readonly hookOptions: { readonly log: ChatTurnLog | undefined; readonly hookTimeoutMs: number };
  /** It was finished before: nothing is produced again. */
  isReplay: boolean;
}

const maxMessageBytes = 2_048;
const scrub = new Redactor();

/** The whole turn. Never rejects, and always ends the lines. */
export async function runChatTurn(turn: Turn, flushesLater: boolean): Promise<void> {
  const { identity, hooks, turns, lines, hookOptions } = turn;
  try {
    const known = await callHook('turns.get', () => turns.get(identity), hookOptions);
    if (!known.done) throw new RunError('internal', 'it is not known whether this turn was answered before');
    if (known.value) await replay(known.value, turn);
    else await answer(turn);
  } catch (error) {
    await fail(error, turn);
  }
  if (flushesLater) lines.end();
  if (hooks.traceFlush && !turn.isReplay) await callHook('traceFlush', () => hooks.traceFlush?.(), hookOptions);
  lines.end();
}

async function answer(turn: Turn): Promise<void> {
  await emitStarted(turn);
  const text = await producedText(turn);
  const answered = await transformed(text, turn);
  if (answered) await settle(text, answered, turn);
  await emitCompleted(turn);
}

/** Streams the events of the producer. The text that it knows itself counts before the one that was gathered. */
async function producedText(turn: Turn): Promise<string> {
  const { hooks, hookOptions } = turn;
  const producer = await hooks.produce();
  let gathered = '';
  for await (const event of producer.stream) {
    await emit(event, turn);
    if (!hooks.accumulate) continue;
    const text = gathered;
    const more = await callHook('accumulate', () => hooks.accumulate?.(event, text), hookOptions);
    if (more.done && typeof more.value === 'string') gathered = more.value;
  }
  return (await producer.finalText()) || gathered;
}

/** Undefined when the hook failed: it may be there to take out what must not be stored. */
async function transformed(text: string, { identity, hooks, hookOptions }: Turn): Promise<AnsweredTurn | undefined> {
  if (!hooks.transformFinalText) return { identity, finalText: text };
  const changed = await callHook('transformFinalText', () => hooks.transformFinalText?.(text) ?? text, hookOptions);
  return changed.done ? { identity, finalText: changed.value } : undefined;
}

async function settle(text: string, answered: AnsweredTurn, turn: Turn): Promise<void> {
  const { identity, hooks, turns, lines, hookOptions } = turn;
  const stored = await callHook('persistAssistantMessage', () => hooks.persistAssistantMessage(answered), hookOptions);
  if (stored.done) {
    const finished = { text, lines: lines.events };
    await callHook('turns.put', () => turns.put(identity, finished), hookOptions);
  }
  if (hooks.onTurnComplete) await callHook('onTurnComplete', () => hooks.onTurnComplete?.(answered), hookOptions);
}

async function replay({ text, lines: events }: FinishedTurn, turn: Turn): Promise<void> {
  turn.isReplay = true;
  const { lines, identity } = turn;
  await emitStarted(turn);
  if (events) {
    for (const json of events) lines.addJson(json);
  } else {
    const messageId = `${identity.sessionId}:${identity.turnIndex}`;
    lines.add({
      type: 'message.part.updated',
      data: { messageId, delta: text, part: { id: messageId, type: 'text' } },
    });
    lines.add({ type: 'result', data: { finalText: text } });
  }
  await emitCompleted(turn);
}

async function fail(error: unknown, turn: Turn): Promise<void> {
  const message = cutText(scrub.text(messageOf(error)), maxMessageBytes);
  logTurn(turn.hookOptions.log, 'a chat turn failed', { error: message });
  await emit({ type: 'error', data: { message } }, turn);
  await emit({ type: 'session.run.failed', data: { sessionId: turn.identity.sessionId, message } }, turn);
}

async function emitStarted(turn: Turn): Promise<void> {
  const { sessionId, tenantId, turnIndex } = turn.identity;
  await emit({ type: 'session.run.started', data: { sessionId, tenantId, turnIndex } }, turn, { isEnvelope: true });
}

async function emitCompleted(turn: Turn): Promise<void> {
  const { sessionId } = turn.identity;
  await emit({ type: 'session.run.completed', data: { sessionId } }, turn, { isEnvelope: true });
}

/** One line, and everything that it entails before the next. */
async function emit(event: ChatEvent, turn: Turn, as = { isEnvelope: false }): Promise<void> {
  const { hooks, lines, hookOptions, isReplay } = turn;
  lines.add(event, as);
  if (isReplay) return;
  if (hooks.onEvent) await callHook('onEvent', () => hooks.onEvent?.(event), hookOptions);
  await lines.room();
}
