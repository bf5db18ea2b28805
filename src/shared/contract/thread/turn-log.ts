import { canonicalJson } from '../../base/json.ts';
import { defined } from '../../base/collections.ts';
import { sha256 } from '../../base/ids.ts';
import { type Message, toolCallsOf, type ToolCallPart, type ToolMessage } from '../message.ts';
import { threadMessage, threadVersion, type ThreadEntryOf } from './thread.ts';
import { toolErrorText } from '../../base/errors.ts';

/** A handoff within a turn. */
export interface TurnHandoff extends Readonly<
  Pick<ThreadEntryOf<'handoff'>, 'step' | 'fromAgentId' | 'toAgentId' | 'descriptor' | 'summary' | 'digest'>
> {
  /** How many messages of the turn had been said. */
  readonly after: number;
}

/** What was said and done in the turn of a run. */
export interface TurnMessages {
  /** Since the user's message, whole. */
  readonly messages: readonly Message[];
  readonly handoffs: readonly TurnHandoff[];
  /** Texts that the user said meanwhile. */
  readonly steered: ReadonlySet<string>;
}

/** Which turn: `began` is the number of the last entry of its thread before it. */
export interface TurnOrigin {
  readonly runId: string;
  readonly at: string;
  readonly began: number;
}

export type TurnEntry = ThreadEntryOf<'message' | 'handoff'>;

/**
 * A turn as its thread keeps it, with neither thoughts nor messages that held nothing else. Every call has its result next to
 * it; one without a result gets an error that says so, or, of a turn that is still going on (`open`), nothing yet.
 */
export function entriesOfTurn(origin: TurnOrigin, said: TurnMessages, calls: 'closed' | 'open'): TurnEntry[] {
  const { messages, handoffs } = said;
  const entries: TurnEntry[] = [];
  let [from, count] = [0, 0];
  const add = (part: readonly Message[]) => {
    for (const { message, isMissing } of paired(part)) {
      const index = count++;
      if (!(isMissing && calls === 'open')) entries.push(...messageEntries(origin, said, message, index));
    }
  };
  for (const [index, handoff] of handoffs.entries()) {
    add(messages.slice(from, handoff.after));
    entries.push(handoffEntry(origin, handoff, index + 1));
    from = handoff.after;
  }
  add(messages.slice(from));
  return entries;
}

interface Paired {
  readonly message: Message;
  readonly isMissing: boolean;
}

function paired(messages: readonly Message[]): Paired[] {
  return pairEach<Paired>(
    messages.map((message) => ({ message, isMissing: false })),
    ({ message }) => message,
    (_, message) => ({ message, isMissing: true }),
  );
}

function messageEntries(
  { runId, at }: TurnOrigin,
  { steered }: TurnMessages,
  message: Message,
  index: number,
): ThreadEntryOf<'message'>[] {
  const kept = threadMessage(message);
  if (!kept) return [];
  // Only the person who wrote to the run while it worked, or this system, wrote these.
  const isOurs = kept.role === 'user' && !steered.has(kept.content);
  const key = kept.role === 'user' ? `${runId}:${index}` : undefined;
  const byRuntime = isOurs ? true : undefined;
  return [defined({ v: threadVersion, t: 'message', runId, at, key, byRuntime, message: kept })];
}

function handoffEntry({ runId, at, began }: TurnOrigin, given: TurnHandoff, number: number): ThreadEntryOf<'handoff'> {
  const { after: _, ...facts } = given;
  return { v: threadVersion, t: 'handoff', runId, at, key: `${runId}:handoff:${number}`, began, ...facts };
}

/** Without the first messages of agents and tools: as many as the thread already has of a run that was redriven. */
export function withoutLogged<T extends TurnEntry>(entries: readonly T[], logged: number): T[] {
  let left = logged;
  return entries.filter((entry) => {
    const isCounted = entry.t === 'message' && entry.message.role !== 'user';
    return !isCounted || left-- <= 0;
  });
}

/**
 * How many messages of a thread follow the first `replaced` ones of a conversation: those before the turn, then the turn's
 * own.
 */
export function keptAfter(replaced: number, initial: readonly Message[], own: readonly Message[]): number {
  const rest = [...initial.slice(replaced), ...own.slice(Math.max(0, replaced - initial.length))];
  return paired(rest).filter(({ message }) => threadMessage(message)).length;
}

/** Where the entries of a turn are: after entry `began`, which those of the conversation before have as their `numbers`. */
interface Numbering {
  readonly began: number;
  readonly numbers: readonly number[];
  /** How many entries follow the user's message, which is the first of the turn. */
  readonly spoken: number;
}

/** The number of the last entry that a summary stands for, when it leaves the last `kept` messages; undefined for none. */
export function lastReplaced({ began, numbers, spoken }: Numbering, kept: number): number | undefined {
  const all = [...numbers, ...Array.from({ length: spoken + 1 }, (_, n) => began + 1 + n)];
  return all[all.length - 1 - kept];
}

/** By which what crosses is recognised when another process rebuilds it. Labels of flows are not in it: older workers knew none. */
export function payloadDigest(messages: readonly Message[]): string {
  return sha256(canonicalJson(messages.map(withoutFlow)));
}

function withoutFlow(message: Message): Message {
  if (message.role === 'system') return message;
  const { flow: _, ...rest } = message;
  return rest;
}

/**
 * The messages such that every tool message answers a call of the assistant message before it and every call has
 * exactly one answer, next to it. Answers without a call are dropped; a call without an answer gets an error that says
 * so. Calls are matched within their own step only, because models repeat ids.
 */
export function pairMessages(messages: readonly Message[]): readonly Message[] {
  return pairEach<Message>(
    messages,
    (message) => message,
    (_, message) => message,
  );
}

/** The same for things that carry messages. `answer` makes the one for a result that was missing, from the thing with its call. */
export function pairEach<T>(
  items: readonly T[],
  messageOf: (item: T) => Message,
  answer: (asking: T, message: ToolMessage) => T,
): T[] {
  const paired: T[] = [];
  const open = new Map<string, { readonly call: ToolCallPart; readonly asking: T }>();
  const closeStep = () => {
    for (const { call, asking } of open.values()) paired.push(answer(asking, unanswered(call)));
    open.clear();
  };
  for (const item of items) {
    const message = messageOf(item);
    if (message.role === 'tool') {
      if (open.delete(message.toolCallId)) paired.push(item);
      continue;
    }
    closeStep();
    paired.push(item);
    if (message.role === 'assistant')
      for (const call of toolCallsOf(message)) open.set(call.id, { call, asking: item });
  }
  closeStep();
  return paired;
}

/** Enough to know a tool by; a provider allows no more. */
const maxNameChars = 64;

function unanswered({ id, name }: ToolCallPart): ToolMessage {
  const content = toolErrorText('aborted', 'there is no result of this call', name.slice(0, maxNameChars));
  return { role: 'tool', toolCallId: id, toolName: name, content, isError: true };
}
