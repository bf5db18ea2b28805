import type { Message, Sensitivity, ToolMessage } from '../../shared/contract/message.ts';
import { jsonText } from '../../shared/base/json-text.ts';

type Labelled = ToolMessage | Extract<Message, { role: 'user' }>;

/**
 * The messages as a provider may see them: tool results and summaries that it does not accept are replaced by a notice.
 * The same array when nothing changes. A result without a label is public; what users say themselves goes to everybody.
 */
export function withinSensitivity(
  messages: readonly Message[],
  accepts: readonly Sensitivity[] = ['public'],
): readonly Message[] {
  const isRefused = (message: Message): message is Labelled => {
    if (message.role === 'tool') return !accepts.includes(message.sensitivity ?? 'public');
    return message.role === 'user' && message.sensitivity !== undefined && !accepts.includes(message.sensitivity);
  };
  if (!messages.some(isRefused)) return messages;
  return messages.map((message) => (isRefused(message) ? { ...message, content: noticeOf(message) } : message));
}

function noticeOf(message: Labelled): string {
  const { sensitivity = 'public' } = message;
  const what = message.role === 'tool' ? `the result of ${message.toolName}` : 'a summary of the conversation';
  return `[${what} is withheld: it is ${sensitivity}, and this model's provider may not see ${sensitivity} data]`;
}

/**
 * The messages with the wanted shape of the answer at the end of the system text, for providers that do not promise to
 * keep to a response format. The same array when there is none.
 */
export function withJsonInstruction(
  messages: readonly Message[],
  responseFormat: Readonly<Record<string, unknown>> | undefined,
): readonly Message[] {
  if (!responseFormat) return messages;
  const text = instructionFor(responseFormat);
  const [first, ...rest] = messages;
  if (first?.role !== 'system') return [{ role: 'system', content: text }, ...messages];
  return [{ role: 'system', content: `${first.content}\n\n${text}` }, ...rest];
}

function instructionFor({ json_schema: named }: Readonly<Record<string, unknown>>): string {
  const schema = typeof named === 'object' && named !== null && 'schema' in named ? named.schema : undefined;
  const shape = schema === undefined ? '' : ` that matches this JSON Schema: ${jsonText(schema)}`;
  return `Your final answer must be nothing but JSON, without a code fence around it${shape}`;
}
