import type { AssistantPart, Message } from './message.ts';

/**
 * The messages without reasoning, except that of provider `keep`. Assistant messages that held nothing else are
 * dropped and neighbours of one role that meet because of it become one message. The same array when nothing changes.
 */
export function withoutReasoning(messages: readonly Message[], keep: string | undefined): readonly Message[] {
  const isForeign = (part: AssistantPart) => part.type === 'reasoning' && part.provider !== keep;
  if (!messages.some((message) => message.role === 'assistant' && message.parts.some(isForeign))) return messages;
  const kept: Message[] = [];
  let dropped = false;
  for (const message of messages) {
    const next =
      message.role === 'assistant' ? { ...message, parts: message.parts.filter((part) => !isForeign(part)) } : message;
    if (next.role === 'assistant' && next.parts.length === 0) {
      dropped = true;
      continue;
    }
    const merged = dropped ? merge(kept.at(-1), next) : undefined;
    dropped = false;
    if (merged) kept[kept.length - 1] = merged;
    else kept.push(next);
  }
  return kept;
}

/** Two messages as one, or undefined when they cannot be: every tool message answers a call of its own. */
function merge(first: Message | undefined, second: Message): Message | undefined {
  if (first?.role === 'assistant' && second.role === 'assistant')
    return { role: 'assistant', parts: [...first.parts, ...second.parts] };
  if (first?.role === 'user' && second.role === 'user')
    return { role: 'user', content: `${first.content}\n\n${second.content}` };
  return undefined;
}
