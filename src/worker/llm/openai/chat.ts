import { createOpenAiProvider, type OpenAiOptions } from './call.ts';
import { ChatFold, chatProofs, type WireChunk } from './chat-fold.ts';
import type { LlmProvider, LlmRequest } from '../provider.ts';
import { defined } from '../../../shared/base/collections.ts';
import type OpenAI from 'openai';
import { type AssistantMessage, type Message, textOf, toolCallsOf } from '../../../shared/contract/message.ts';
import { assertNever } from '../../../shared/base/errors.ts';
import { noWireFiles, userParts, type UserPart, type WireFiles } from './user-parts.ts';
import { wireArgs, wireMetadata, wireTool } from './wire-values.ts';

/**
 * Any server that speaks OpenAI's chat completions. One call makes one request: no retries. Throws `invalid_config` when
 * the base URL or the key is missing.
 */
export function createOpenAiChatProvider(options: OpenAiOptions): LlmProvider {
  const { id, baseUrl, streams, sendsMetadata } = options;
  return createOpenAiProvider<WireChunk>(options, {
    send(client, request, files, sendOptions) {
      const maxTokensField = isOpenAi(baseUrl) ? 'max_completion_tokens' : 'max_tokens';
      const body = chatBody(request, { provider: id, maxTokensField, streams, sendsMetadata, files });
      return client.chat.completions.create(body, sendOptions);
    },
    fold: (onPart) => new ChatFold(id, onPart),
  });
}

function isOpenAi(baseUrl: string): boolean {
  return /(^|\.)openai\.(azure\.)?com$/.test(new URL(baseUrl).hostname);
}

type Body = OpenAI.Chat.Completions.ChatCompletionCreateParams;
type WireMessage = OpenAI.Chat.Completions.ChatCompletionMessageParam;

interface WireOptions {
  readonly provider: string;
  /** OpenAI itself wants `max_completion_tokens`; other servers know `max_tokens`, and some refuse what they do not know. */
  readonly maxTokensField: 'max_tokens' | 'max_completion_tokens';
  /** Default: true. */
  readonly streams?: boolean | undefined;
  /** Default: false. */
  readonly sendsMetadata?: boolean | undefined;
  /** Default: none. */
  readonly files?: WireFiles;
}

/**
 * The body of a chat completion. Absent fields are not sent. Neither are session tokens, for which this interface has no
 * field, nor metadata unless the server is known to take it: strict ones refuse unknown fields.
 */
export function chatBody(request: LlmRequest, options: WireOptions): Body {
  const { tools, toolChoice, maxOutputTokens, temperature, topP, stop, reasoningEffort, responseFormat } = request;
  const metadata = options.sendsMetadata ? wireMetadata(request) : undefined;
  const { maxTokensField, streams = true } = options;
  const hasTools = tools !== undefined && tools.length > 0;
  const body = defined({
    model: request.model,
    messages: wireMessages(request.messages, options),
    metadata,
    tools: hasTools ? tools.map((tool) => ({ type: 'function' as const, function: wireTool(tool) })) : undefined,
    tool_choice: hasTools ? wireToolChoice(toolChoice) : undefined,
    max_tokens: maxTokensField === 'max_tokens' ? maxOutputTokens : undefined,
    max_completion_tokens: maxTokensField === 'max_completion_tokens' ? maxOutputTokens : undefined,
    temperature,
    top_p: topP,
    stop: stop !== undefined && stop.length > 0 ? [...stop] : undefined,
    reasoning_effort: reasoningEffort as Body['reasoning_effort'],
    response_format: responseFormat as unknown as Body['response_format'],
  });
  return streams ? { ...body, stream: true, stream_options: { include_usage: true } } : { ...body, stream: false };
}

function wireToolChoice(choice: LlmRequest['toolChoice']): NonNullable<Body['tool_choice']> {
  return typeof choice === 'object' ? { type: 'function', function: { name: choice.name } } : (choice ?? 'auto');
}

function wireMessages(messages: readonly Message[], { provider, files = noWireFiles }: WireOptions): WireMessage[] {
  return messages.flatMap((message): WireMessage | [] => {
    const { role } = message;
    if (role === 'assistant') return wireAssistant(message, provider) ?? [];
    const { content } = message;
    const parts = role === 'user' ? userParts(message, files) : undefined;
    if (role === 'user' && parts) return { role, content: parts.map(wirePart) };
    return role === 'tool' ? { role, tool_call_id: message.toolCallId, content } : { role, content };
  });
}

function wirePart(part: UserPart): OpenAI.Chat.Completions.ChatCompletionContentPart {
  switch (part.type) {
    case 'text':
      return { type: 'text', text: part.text };
    case 'image':
      return { type: 'image_url', image_url: defined({ url: part.url, detail: part.detail }) };
    case 'document':
      return { type: 'file', file: { filename: part.name, file_data: part.url } };
    default:
      return assertNever(part);
  }
}

/** Undefined when nothing of the message fits on this wire, as for reasoning alone. */
function wireAssistant(message: AssistantMessage, provider: string): WireMessage | undefined {
  const text = textOf(message);
  const calls = toolCallsOf(message);
  if (text === '' && calls.length === 0) return undefined;
  const proof = message.parts.find(
    (part) => part.type === 'reasoning' && part.provider === provider && part.meta !== undefined,
  );
  const { details = [], calls: callProofs } =
    chatProofs.safeParse(proof?.type === 'reasoning' ? proof.meta : {}).data ?? {};
  const proofs = new Map(callProofs);
  const wireCalls = calls.map(({ id, name, args }) =>
    defined({
      id,
      type: 'function' as const,
      function: { name, arguments: wireArgs(args) },
      extra_content: proofs.get(id),
    }),
  );
  return defined({
    role: 'assistant' as const,
    content: text === '' ? null : text,
    tool_calls: wireCalls.length > 0 ? wireCalls : undefined,
    // Not OpenAI's own fields: only servers that sent such proofs get them back. Reasoning without one stays here.
    reasoning_details: details.length > 0 ? details : undefined,
  });
}
