import { assertNever } from '../../shared/base/errors.ts';
import { textOf, toolCallsOf, type Message } from '../../shared/contract/message.ts';
import { keepEnds } from '../../shared/base/bound-text.ts';

/** One message takes at most this share of a transcript; longer ones keep their ends. */
const largestShare = 0.25;

/** A message as somebody reads it who has no part in the conversation. What a model thought is left out. */
export function transcribed(message: Message, maxBytes: number): string {
  return keepEnds(wordsOf(message), Math.floor(maxBytes * largestShare));
}

function wordsOf(message: Message): string {
  switch (message.role) {
    case 'user':
      return `USER:\n${message.content}`;
    case 'system':
      return `SYSTEM:\n${message.content}`;
    case 'tool':
      return `${message.isError ? 'ERROR' : 'RESULT'} OF ${message.toolName}:\n${message.content}`;
    case 'assistant': {
      const calls = toolCallsOf(message).map(({ name, args }) => `CALL OF ${name}:\n${args}`);
      const text = textOf(message);
      return [...(text === '' ? [] : [`ASSISTANT:\n${text}`]), ...calls].join('\n');
    }
    default:
      return assertNever(message);
  }
}
