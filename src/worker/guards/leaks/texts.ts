import { assertNever } from '../../../shared/base/errors.ts';
import { jsonText } from '../../../shared/base/json.ts';
import type { AssistantPart, Message } from '../../../shared/contract/message.ts';
import type { LeakFinding } from '../../../shared/contract/agent/lateral-leak.ts';
import type { Crossed } from './causality.ts';

/** What may cross in place of each text, and the findings. */
export interface CrossedTexts<T> {
  readonly value: T;
  readonly leaks: readonly LeakFinding[];
}

type Check = (text: string) => Crossed;

/** A conversation as it crosses to another agent. System text is authored and crosses as it is. */
export function crossMessages(messages: readonly Message[], check: Check): CrossedTexts<readonly Message[]> {
  const leaks: LeakFinding[] = [];
  const pass = (text: string) => {
    const { text: crossed, leak } = check(text);
    if (leak) leaks.push(leak);
    return crossed;
  };
  const value = messages.map((message): Message => {
    switch (message.role) {
      case 'system':
        return message;
      case 'user':
      case 'tool':
        return withText(message, pass(message.content));
      case 'assistant':
        return { ...message, parts: message.parts.map((part) => partAfter(part, pass)) };
      default:
        return assertNever(message);
    }
  });
  return { value: leaks.length > 0 ? value : messages, leaks };
}

function withText<M extends { readonly content: string }>(message: M, content: string): M {
  return content === message.content ? message : { ...message, content };
}

/** Arguments stay JSON: there is no room for a mark, and where they were blocked none are left. */
function partAfter(part: AssistantPart, pass: (text: string) => string): AssistantPart {
  if (part.type === 'reasoning') return part;
  if (part.type === 'text') return { ...part, text: pass(part.text) };
  const crossed = pass(part.args);
  return crossed === part.args || crossed.endsWith(part.args) ? part : { ...part, args: '{}' };
}

/** An answer as it crosses: a value that is no text is looked at as JSON, and stays a value unless it was found. */
export function crossValue(value: unknown, check: Check): CrossedTexts<unknown> {
  const text = typeof value === 'string' ? value : jsonText(value ?? null);
  const { text: crossed, leak } = check(text);
  return { value: crossed === text ? value : crossed, leaks: leak ? [leak] : [] };
}
