import { jsonText } from '../../shared/base/json-text.ts';
import type { Message } from '../../shared/contract/message.ts';

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
