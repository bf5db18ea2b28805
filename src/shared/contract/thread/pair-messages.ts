import { toolCallsOf, type Message, type ToolCallPart, type ToolMessage } from '../message.ts';
import { toolErrorText } from '../../base/errors.ts';

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
