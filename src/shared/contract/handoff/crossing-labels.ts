import { canonicalJson } from '../../base/json.ts';
import { defined } from '../../base/collections.ts';
import { classOf, leastTrusted, originsOfAll } from '../flow-label.ts';
import { lessTrusted } from '../agent/trust.ts';
import type { Message, Origins, ToolMessage } from '../message.ts';

/**
 * What crosses from one conversation to another, with the labels that it must have: a filter may write a message out of
 * others, and one of the operator's own may hand on a result without its labels. `read` is all that the conversation has had.
 */
export function withLabels(crossed: readonly Message[], read: readonly Message[]): readonly Message[] {
  const origins = originsOfAll(read);
  const known = new Set(read);
  if (!origins || crossed.every((message) => known.has(message))) return crossed;
  const byText = new Map(read.map((message) => [textsOf(message), message]));
  return crossed.map((message): Message => {
    if (known.has(message)) return message;
    const same = byText.get(textsOf(message));
    switch (message.role) {
      case 'user':
        return defined({ ...message, flow: same?.role === 'user' ? same.flow : origins });
      case 'tool':
        return same?.role === 'tool' ? labelledLike(message, same) : ofOrigins(message, origins);
      default:
        return message;
    }
  });
}

/** By which a copy of a message is recognised. */
function textsOf(message: Message): string {
  if (message.role === 'assistant') return '';
  return canonicalJson([message.role, message.content, message.role === 'tool' ? message.toolCallId : '']);
}

function labelledLike(message: ToolMessage, { trust, sensitivity, flow }: ToolMessage): ToolMessage {
  return defined({ ...message, trust, sensitivity, flow });
}

function ofOrigins(message: ToolMessage, origins: Origins): ToolMessage {
  return { ...message, trust: lessTrusted(classOf(message.trust), leastTrusted(origins)), flow: origins };
}
