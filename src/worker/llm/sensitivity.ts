import type { Message, Sensitivity, ToolMessage } from '../../shared/message.ts';

/**
 * The messages as a provider may see them: tool results that it does not accept are replaced by a notice. The same array
 * when nothing changes. A text without a label is public.
 */
export function withinSensitivity(
  messages: readonly Message[],
  accepts: readonly Sensitivity[] = ['public'],
): readonly Message[] {
  const isRefused = (message: Message): message is ToolMessage =>
    message.role === 'tool' && !accepts.includes(message.sensitivity ?? 'public');
  if (!messages.some(isRefused)) return messages;
  return messages.map((message) => (isRefused(message) ? { ...message, content: noticeOf(message) } : message));
}

function noticeOf({ toolName, sensitivity = 'public' }: ToolMessage): string {
  return `[the result of ${toolName} is withheld: it is ${sensitivity}, and this model's provider may not see ${sensitivity} data]`;
}
