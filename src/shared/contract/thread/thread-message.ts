import { assertNever } from '../../base/errors.ts';
import type { Message } from '../message.ts';
import type { ThreadMessage } from './thread.ts';

/** What a thread keeps of a message: reasoning stays with the run, system text with the agent. Undefined: nothing. */
export function threadMessage(message: Message): ThreadMessage | undefined {
  switch (message.role) {
    case 'system':
      return undefined;
    case 'assistant': {
      const parts = message.parts.filter((part) => part.type !== 'reasoning');
      return parts.length === 0 ? undefined : { role: 'assistant', parts };
    }
    case 'user':
    case 'tool':
      return message;
    default:
      return assertNever(message);
  }
}
