import { assertNever } from '../../base/errors.ts';
import type { JournalEntry, JournalEntryOf } from '../journal/journal.ts';
import { jsonText } from '../../base/json-text.ts';
import { toolCallsOf, type AssistantMessage, type Message, type ToolMessage } from '../message.ts';
import { repairRequest } from '../repair-request.ts';
import type { TurnHandoff, TurnSaid } from './turn-log.ts';

/** The step of a run whose calls are worked on while its journal is read. */
interface Step {
  /** Where its answer is among the messages. */
  readonly place: number;
  /** By place of the call. */
  readonly results: Map<number, ToolMessage>;
  /** Places of calls by what people were asked about them. */
  readonly asked: Map<string, number>;
}

/**
 * What a run has said and done by its journal: the same as the turn itself holds, and of a step that is not over yet the
 * results that there are. All in the order of the calls.
 */
export function turnOfJournal(journal: Iterable<JournalEntry>): TurnSaid {
  const reading = new Reading();
  for (const entry of journal) reading.follow(entry);
  return reading.turn();
}

class Reading {
  readonly #messages: Message[] = [];
  readonly #handoffs: TurnHandoff[] = [];
  readonly #steered = new Map<string, string>();
  #step: Step | undefined;

  turn(): TurnSaid {
    const messages = [...this.#messages, ...this.#results()];
    const steered = new Set(this.#steered.values());
    return { messages, handoffs: this.#handoffs, steered };
  }

  follow(entry: JournalEntry): void {
    const step = this.#step;
    switch (entry.t) {
      case 'answered':
        this.#say(entry.message);
        this.#step = { place: this.#messages.length - 1, results: new Map(), asked: new Map() };
        return;
      case 'called':
        // The first result stands.
        if (step && !step.results.has(entry.index)) step.results.set(entry.index, resultOf(entry));
        return;
      case 'suspended':
        for (const { id, index } of entry.asks ?? []) step?.asked.set(id, index);
        return;
      case 'decided':
        if (step) this.#decide(step, entry);
        return;
      case 'retrying':
        for (const index of entry.calls) step?.results.delete(index);
        return;
      case 'repair':
        return this.#say({ role: 'user', content: repairRequest(entry.problem) });
      case 'steered':
        return this.#steer(entry);
      case 'handed_off':
        return this.#handOff(entry);
      case 'opened':
      case 'attempted':
      case 'session_lost':
      case 'compacted':
      case 'calling':
      case 'inner_calling':
      case 'inner_called':
      case 'submitted':
      case 'generated':
      case 'essentials':
      case 'stepped':
      case 'told':
      case 'closed':
        return;
      default:
        assertNever(entry);
    }
  }

  #results(): ToolMessage[] {
    return [...(this.#step?.results ?? [])].sort(([a], [b]) => a - b).map(([, result]) => result);
  }

  #say(message: Message): void {
    this.#messages.push(...this.#results(), message);
    this.#step = undefined;
  }

  #steer({ messages }: JournalEntryOf<'steered'>): void {
    for (const { id, text } of messages) {
      if (this.#steered.has(id)) continue;
      this.#steered.set(id, text);
      this.#say({ role: 'user', content: text });
    }
  }

  #handOff({ step, from, to, filter }: JournalEntryOf<'handed_off'>): void {
    this.#messages.push(...this.#results());
    this.#step = undefined;
    const after = this.#messages.length;
    this.#handoffs.push({ after, step, fromAgentId: from, toAgentId: to, descriptor: filter });
  }

  /** A call that a person changed shows as it is made. */
  #decide({ place, results, asked }: Step, { decisions = [] }: JournalEntryOf<'decided'>): void {
    for (const decision of decisions) {
      const index = asked.get(decision.id);
      const updated = decision.kind === 'approval' ? decision.updatedArgs : undefined;
      if (index === undefined || !updated || results.has(index)) continue;
      const message = this.#messages[place] as AssistantMessage;
      const call = toolCallsOf(message)[index];
      const parts = message.parts.map((part) => (part === call ? { ...call, args: jsonText(updated) } : part));
      this.#messages[place] = { ...message, parts };
    }
  }
}

function resultOf(entry: JournalEntryOf<'called'>): ToolMessage {
  const { toolCallId, toolName, content, errorKind, sensitivity, trust } = entry;
  return {
    role: 'tool',
    toolCallId,
    toolName,
    content,
    ...(errorKind && { isError: true }),
    ...(sensitivity && { sensitivity }),
    ...(trust && { trust }),
  };
}
