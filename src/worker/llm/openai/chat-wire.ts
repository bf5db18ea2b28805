import type OpenAI from 'openai';
import { type AssistantMessage, type Message, textOf, toolCallsOf } from '../../../shared/contract/message.ts';
import { wireArgs, wireMetadata } from './wire-values.ts';
import type { LlmRequest } from '../provider.ts';

type Body = OpenAI.Chat.Completions.ChatCompletionCreateParams;
type WireMessage = OpenAI.Chat.Completions.ChatCompletionMessageParam;

export interface WireOptions {
  readonly provider: string;
  /** OpenAI itself wants `max_completion_tokens`; other servers know `max_tokens`, and some refuse what they do not know. */
  readonly maxTokensField: 'max_tokens' | 'max_completion_tokens';
  /** Default: true. */
  readonly streams?: boolean;
  /** Default: false. */
  readonly sendsMetadata?: boolean;
}

/**
 * The body of a chat completion. Absent fields are not sent. Neither are session tokens, for which this interface has no
 * field, nor metadata unless the server is known to take it: strict ones refuse unknown fields.
 */
export function chatBody(request: LlmRequest, options: WireOptions): Body {
  const { tools, toolChoice, maxOutputTokens, temperature, topP, stop, reasoningEffort, responseFormat } = request;
  const metadata = options.sendsMetadata ? wireMetadata(request) : undefined;
  return {
    model: request.model,
    messages: wireMessages(request.messages, options.provider),
    ...((options.streams ?? true) ? { stream: true, stream_options: { include_usage: true } } : { stream: false }),
    ...(metadata && { metadata }),
    ...(tools && tools.length > 0 && { tools: wireTools(tools), tool_choice: wireToolChoice(toolChoice) }),
    ...(maxOutputTokens !== undefined && { [options.maxTokensField]: maxOutputTokens }),
    ...(temperature !== undefined && { temperature }),
    ...(topP !== undefined && { top_p: topP }),
    ...(stop !== undefined && stop.length > 0 && { stop: [...stop] }),
    ...(reasoningEffort !== undefined && {
      reasoning_effort: reasoningEffort as NonNullable<Body['reasoning_effort']>,
    }),
    ...(responseFormat !== undefined && {
      response_format: responseFormat as unknown as NonNullable<Body['response_format']>,
    }),
  };
}

function wireTools(tools: NonNullable<LlmRequest['tools']>): NonNullable<Body['tools']> {
  return tools.map(({ name, description, parameters }) => ({
    type: 'function',
    function: { name, description, parameters },
  }));
}

function wireToolChoice(choice: LlmRequest['toolChoice']): NonNullable<Body['tool_choice']> {
  return typeof choice === 'object' ? { type: 'function', function: { name: choice.name } } : (choice ?? 'auto');
}

function wireMessages(messages: readonly Message[], provider: string): WireMessage[] {
  const wire: WireMessage[] = [];
  for (const message of messages) {
    const next = message.role === 'assistant' ? wireAssistant(message, provider) : wireOther(message);
    if (next) wire.push(next);
  }
  return wire;
}

function wireOther(message: Exclude<Message, AssistantMessage>): WireMessage {
  if (message.role === 'tool') return { role: 'tool', tool_call_id: message.toolCallId, content: message.content };
  return { role: message.role, content: message.content };
}

/** Undefined when nothing of the message can be said on this wire, as for reasoning alone. */
function wireAssistant(message: AssistantMessage, provider: string): WireMessage | undefined {
  const text = textOf(message);
  const calls = toolCallsOf(message);
  if (text === '' && calls.length === 0) return undefined;
  const proof = message.parts.find(
    (part) => part.type === 'reasoning' && part.provider === provider && part.meta !== undefined,
  );
  return {
    role: 'assistant',
    content: text === '' ? null : text,
    ...(calls.length > 0 && {
      tool_calls: calls.map(({ id, name, args }) => ({
        id,
        type: 'function',
        function: { name, arguments: wireArgs(args) },
      })),
    }),
    // Not OpenAI's own field: only servers that sent such a proof get it back. Reasoning without one stays here.
    ...(proof?.type === 'reasoning' && Array.isArray(proof.meta) && { reasoning_details: proof.meta }),
  };
}
