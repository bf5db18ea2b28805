import { RunError } from '../../base/errors.ts';
import { withLabels } from '../handoff/crossing-labels.ts';
import { sourceOfFile } from '../flow-label.ts';
import type { JournalEntryOf } from './journal.ts';
import type { FlowLabel, Message, Sensitivity } from '../message.ts';
import { isEnveloped, isSummary, summaryMessageOf } from '../thread/summary-message.ts';

/** What replaces the beginning of a conversation. */
export interface Summarised {
  /** Content of the summary message. */
  readonly text: string;
  /** How many messages it replaces: those before the turn first, then those of the turn. */
  readonly replaced: number;
  readonly sensitivity?: Sensitivity | undefined;
  readonly flow?: FlowLabel | undefined;
}

/** The conversation of a turn. Messages are shared between its views, so that no text is there twice. */
export interface ConversationState {
  /** As models see it: the summary, if there is one, and what follows it. */
  readonly messages: readonly Message[];
  /** Before the first answer of the turn. */
  readonly initial: readonly Message[];
  /** The same of the first agent of the turn: what a handoff leaves behind has been read all the same. */
  readonly begun: readonly Message[];
  /** All messages of the turn since, whole: also those that a summary replaces. */
  readonly own: readonly Message[];
  /** The same of the agents before the last handoff. */
  readonly earlier: readonly Message[];
  /** Absent until something of this conversation was summarised in this turn. */
  readonly summarised: Summarised | undefined;
  /** There has been a tool result, or text that a tool may have written. */
  readonly hasResults: boolean;
}

/** Grows message by message. What it copies does not depend on how long it already is. */
export class Conversation implements ConversationState {
  initial: readonly Message[];
  readonly begun: readonly Message[];
  readonly messages: Message[];
  readonly own: Message[];
  readonly earlier: Message[];
  summarised: Summarised | undefined;
  hasResults: boolean;

  constructor(from: Pick<ConversationState, 'initial'> & Partial<ConversationState>) {
    this.initial = from.initial;
    this.begun = from.begun ?? from.initial;
    this.messages = [...(from.messages ?? from.initial)];
    this.own = [...(from.own ?? [])];
    this.earlier = [...(from.earlier ?? [])];
    this.summarised = from.summarised;
    this.hasResults = from.hasResults ?? from.initial.some(isResult);
  }

  push(message: Message): void {
    this.own.push(message);
    this.messages.push(message);
    this.hasResults ||= message.role === 'tool';
  }

  /** Another agent goes on with these: for it the conversation begins with them. */
  crossOver(crossed: readonly Message[]): void {
    this.earlier.push(...this.own.splice(0));
    this.initial = withLabels(crossed, [...this.begun, ...this.earlier, ...this.messages]);
    this.messages.splice(0, this.messages.length, ...this.initial);
    this.summarised = undefined;
    this.hasResults = crossed.some(isResult);
  }

  /** Takes back the last messages, which are of this turn. */
  drop(count: number): void {
    this.own.splice(this.own.length - count);
    this.messages.splice(this.messages.length - count);
  }

  /** Puts other arguments into a call of the last answer. */
  editCall(index: number, id: string, args: string): void {
    const at = this.own.findLastIndex(({ role }) => role === 'assistant');
    const message = this.own[at];
    if (message?.role !== 'assistant') return;
    let position = -1;
    const parts = message.parts.map((part) => {
      if (part.type === 'tool_call') position++;
      return part.type === 'tool_call' && position === index && part.id === id ? { ...part, args } : part;
    });
    const edited = { ...message, parts };
    this.own[at] = edited;
    // What a summary replaces has no open calls: the end of both views is the same.
    this.messages[this.messages.length - (this.own.length - at)] = edited;
  }

  /** Throws `run_state_malformed` for a summary that would take a result from its call, or leave nothing. */
  compact(entry: JournalEntryOf<'compacted'>): void {
    const { replaced } = entry;
    const before = this.summarised?.replaced ?? 0;
    const next = this.#at(replaced);
    if (replaced <= before || !next || next.role === 'tool')
      throw new RunError('run_state_malformed', `the journal has a summary of ${replaced} messages, which cannot be`);
    const message = summaryMessageOf(this.initial, entry);
    this.messages.splice(0, replaced - before + (this.summarised ? 1 : 0), message);
    const { sensitivity, flow } = message;
    this.summarised = { text: message.content, replaced, sensitivity, flow };
  }

  #at(index: number): Message | undefined {
    return index < this.initial.length ? this.initial[index] : this.own[index - this.initial.length];
  }
}

/** How many messages of the whole conversation come before this one of `messages`. */
export function positionOf({ summarised }: Pick<ConversationState, 'summarised'>, index: number): number {
  return summarised ? summarised.replaced + index - 1 : index;
}

/** A result, a summary of some, a stranger's file, or what another agent has written after it had read untrusted text. */
function isResult(message: Message, index: number): boolean {
  if (message.role === 'tool') return true;
  if (message.role === 'system') return false;
  if (message.flow && message.flow.sources.length > 0) return true;
  if (message.role !== 'user') return false;
  if (message.files?.some((file) => sourceOfFile(file))) return true;
  return index === 0 && isSummary(message) && isEnveloped(message.content);
}
