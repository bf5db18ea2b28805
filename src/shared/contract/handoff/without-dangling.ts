import type { AssistantMessage, Message, ToolMessage } from '../message.ts';

/**
 * The messages such that every tool message answers a call of the assistant message before it and every call has exactly
 * one answer, next to it: calls without an answer and answers without a call are left out, and so are assistant messages
 * that said nothing beside. For messages that another agent is about to read; a turn that goes on answers its open calls
 * instead, see `pairMessages`. The rest stays as it is, in its order.
 */
export function withoutDangling(messages: readonly Message[]): readonly Message[] {
  const kept: Message[] = [];
  for (let at = 0; at < messages.length; at++) {
    const message = messages[at] as Message;
    if (message.role === 'tool') continue;
    if (message.role === 'assistant') kept.push(...step(message, answersAfter(messages, at)));
    else kept.push(message);
  }
  return kept;
}

function answersAfter(messages: readonly Message[], at: number): readonly ToolMessage[] {
  const answers: ToolMessage[] = [];
  for (let next = at + 1; ; next++) {
    const message = messages[next];
    if (message?.role !== 'tool') return answers;
    answers.push(message);
  }
}

/** Models repeat ids, also within one step: the first call of an id takes the first answer to it, and no other is told apart. */
function step(said: AssistantMessage, answers: readonly ToolMessage[]): readonly Message[] {
  const taken = new Map<string, ToolMessage>();
  const parts = said.parts.filter((part) => {
    if (part.type !== 'tool_call') return true;
    const answer = answers.find(({ toolCallId }) => toolCallId === part.id);
    if (!answer || taken.has(part.id)) return false;
    taken.set(part.id, answer);
    return true;
  });
  const whole = parts.length === said.parts.length ? said : { ...said, parts };
  const saysNothing = whole !== said && parts.every((part) => part.type === 'reasoning');
  return saysNothing ? [] : [whole, ...answers.filter((one) => taken.get(one.toolCallId) === one)];
}
