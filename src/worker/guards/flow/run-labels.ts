import { originsOfAll } from '../../../shared/contract/flow-label.ts';
import { withLabels } from '../../../shared/contract/handoff/crossing-labels.ts';
import type { ConversationState } from '../../../shared/contract/journal/conversation.ts';
import type { FlowLabel, Message } from '../../../shared/contract/message.ts';
import { FlowMemory } from './memory.ts';

/** All that a run has read: what it began with, and what was said since, also before a handoff or a summary. */
export function readBy({
  begun,
  earlier,
  own,
}: Pick<ConversationState, 'begun' | 'earlier' | 'own'>): readonly Message[] {
  return [...begun, ...earlier, ...own];
}

/** Labels for what leaves a run: for a child, a parent, a thread. */
export interface RunLabels {
  /**
   * Of a text that the run's model wrote. Undefined: it has read nothing untrusted, and nothing but public. The label also
   * has what others brought of `beside`, which the reader gets without labels of its own.
   */
  of(text: string, beside?: string): FlowLabel | undefined;
  /** Messages of the run, or made of them, with the labels that they must have where the rest of it is not known. */
  onto(messages: readonly Message[]): readonly Message[];
}

/**
 * The labels for what leaves a run that has read this. `authored` is what its author wrote. The search for what of a text is
 * untrusted is made only where something untrusted was read.
 */
export function labelsOfRun(messages: readonly Message[], authored: readonly string[]): RunLabels {
  let known: FlowMemory | undefined;
  const memory = () => (known ??= memoryOf(messages, authored));
  const of = (text: string, beside = '') => {
    if (!originsOfAll(messages)) return undefined;
    const label = memory().labelOf(beside === '' ? text : `${text}\n${beside}`);
    // A label without parts means all of the text that it is of, and no other.
    return label && !label.parts && beside !== '' ? { ...label, parts: [text, beside] } : label;
  };
  return {
    of,
    onto: (crossing) =>
      withLabels(crossing, messages).map((message) => {
        if (message.role !== 'user' || !message.flow || message.flow.parts || messages.includes(message))
          return message;
        return { ...message, flow: of(message.content) ?? message.flow };
      }),
  };
}

function memoryOf(messages: readonly Message[], authored: readonly string[]): FlowMemory {
  const memory = new FlowMemory(authored, () => false);
  for (const message of messages) memory.add(message);
  return memory;
}

/** What a model wrote in these messages, and what was written out of it. */
export function writtenIn(messages: readonly Message[]): string {
  return messages.flatMap(wordsOf).join('\n');
}

function wordsOf(message: Message): readonly string[] {
  if (message.role === 'user') return message.flow ? [message.content] : [];
  if (message.role !== 'assistant') return [];
  return message.parts.map((part) => (part.type === 'tool_call' ? part.args : part.type === 'text' ? part.text : ''));
}
