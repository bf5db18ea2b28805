import { createOpenAiProvider, type OpenAiOptions } from './call.ts';
import { ResponsesFold, type ResponsesEvent, outputMark } from './responses-fold.ts';
import type { LlmProvider, LlmRequest } from '../provider.ts';
import { defined } from '../../../shared/base/collections.ts';
import type OpenAI from 'openai';
import { z } from 'zod';
import { textOf, toolCallsOf, type AssistantMessage, type Message } from '../../../shared/contract/message.ts';
import { assertNever } from '../../../shared/base/errors.ts';
import { isDataUrl } from '../../../shared/contract/input-parts.ts';
import { userParts, type UserPart, type WireFiles } from './user-parts.ts';
import { wireArgs, wireMetadata, wireTool } from './wire-values.ts';

export interface OpenAiResponsesOptions extends OpenAiOptions {
  /** Does this model reason? Default: by the capabilities. Models that do not refuse to be asked for reasoning. */
  readonly reasons?: ((model: string) => boolean) | undefined;
  /** Asks for a summary of the reasoning, which is then shown. Default: none is asked for. */
  readonly reasoningSummary?: 'auto' | 'concise' | 'detailed' | undefined;
  /**
   * Continues a conversation that the server keeps, by the id of its last answer. Default: off, the whole conversation
   * goes with every call. Then the journal is the only truth, nothing of a run stays at the provider, and any worker, key
   * or provider can go on.
   */
  readonly sessions?: boolean | undefined;
}

/** Any server that speaks OpenAI's Responses. Otherwise like `createOpenAiChatProvider`. */
export function createOpenAiResponsesProvider(options: OpenAiResponsesOptions): LlmProvider {
  const provider = createOpenAiProvider<ResponsesEvent>(options, {
    send: (client, request, files, sendOptions) =>
      client.responses.create(responsesBody(request, files, options), sendOptions),
    fold: (onPart) => new ResponsesFold(options.id, onPart, options.sessions),
  });
  return { ...provider, capabilities: { ...provider.capabilities, fileUrls: true } };
}

type Body = OpenAI.Responses.ResponseCreateParams;
type Item = OpenAI.Responses.ResponseInputItem;

/** Asks for the encrypted reasoning, without which a model thinks anew at every step. Some models refuse the question. */
const reasoningFields: OpenAI.Responses.ResponseIncludable[] = ['reasoning.encrypted_content'];

/**
 * The body of a response. Absent fields are not sent; stop sequences are not either, because this interface has none.
 * Nothing is stored at the server and nothing runs there in the background, unless sessions are on.
 */
function responsesBody(request: LlmRequest, files: WireFiles, options: OpenAiResponsesOptions): Body {
  const { id, capabilities, sessions = false, streams = true } = options;
  const { tools, toolChoice, maxOutputTokens, temperature, topP, reasoningEffort, responseFormat } = request;
  const reasons = (capabilities?.reasoning ?? true) && (options.reasons?.(request.model) ?? true);
  const session = sessions ? request.sessionToken : undefined;
  const metadata = options.sendsMetadata ? wireMetadata(request) : undefined;
  const { instructions, messages } = sessions ? split(request.messages) : { messages: request.messages };
  const hasTools = tools !== undefined && tools.length > 0;
  return defined({
    model: request.model,
    instructions: instructions || undefined,
    input: inputItems(session === undefined ? messages : newMessages(messages), id, files),
    stream: streams,
    store: sessions,
    background: false,
    previous_response_id: session,
    include: reasons ? reasoningFields : undefined,
    // Strict is the default of this interface, and it refuses schemas that have optional fields.
    tools: hasTools
      ? tools.map((tool) => ({ type: 'function' as const, ...wireTool(tool), strict: false }))
      : undefined,
    tool_choice: hasTools ? wireToolChoice(toolChoice) : undefined,
    max_output_tokens: maxOutputTokens,
    temperature,
    top_p: topP,
    reasoning: reasons ? reasoningOf(reasoningEffort, options) : undefined,
    text: responseFormat === undefined ? undefined : { format: wireFormat(responseFormat) },
    metadata,
  });
}

function reasoningOf(effort: string | undefined, { reasoningSummary }: OpenAiResponsesOptions) {
  if (effort === undefined && reasoningSummary === undefined) return undefined;
  return defined({ effort: effort as OpenAI.Reasoning['effort'], summary: reasoningSummary });
}

function wireToolChoice(choice: LlmRequest['toolChoice']): NonNullable<Body['tool_choice']> {
  return typeof choice === 'object' ? { type: 'function', name: choice.name } : (choice ?? 'auto');
}

const chatFormat = z.object({ type: z.literal('json_schema'), json_schema: z.looseObject({ name: z.string() }) });

/** Chat completions nest the schema, this interface does not. `strict` is off unless asked for, as it is there. */
function wireFormat(format: Readonly<Record<string, unknown>>): OpenAI.Responses.ResponseFormatTextConfig {
  const nested = chatFormat.safeParse(format).data;
  const flat = nested ? { strict: false, ...nested.json_schema, type: 'json_schema' } : format;
  return flat as unknown as OpenAI.Responses.ResponseFormatTextConfig;
}

/**
 * The system text by itself, and the conversation. The server keeps the one that came as a message with the first call, and
 * takes the one in `instructions` anew with every call: only there it may grow.
 */
function split(messages: readonly Message[]): { readonly instructions: string; readonly messages: readonly Message[] } {
  const first = messages.findIndex(({ role }) => role !== 'system');
  const count = first < 0 ? messages.length : first;
  const system = messages.slice(0, count).flatMap((message) => (message.role === 'system' ? [message.content] : []));
  return { instructions: system.join('\n\n'), messages: messages.slice(count) };
}

/** What the server has not seen: all that came after its own last answer. */
function newMessages(messages: readonly Message[]): readonly Message[] {
  return messages.slice(messages.findLastIndex(({ role }) => role === 'assistant') + 1);
}

function inputItems(messages: readonly Message[], provider: string, files: WireFiles): Item[] {
  return messages.flatMap((message): Item[] => {
    switch (message.role) {
      case 'assistant':
        return assistantItems(message, provider);
      case 'tool':
        return [{ type: 'function_call_output', call_id: message.toolCallId, output: message.content }];
      case 'user': {
        const content = userParts(message, files)?.map(wirePart) ?? message.content;
        return [{ type: 'message', role: message.role, content }];
      }
      default:
        return [{ type: 'message', role: message.role, content: message.content }];
    }
  });
}

function wirePart(part: UserPart): OpenAI.Responses.ResponseInputContent {
  switch (part.type) {
    case 'text':
      return { type: 'input_text', text: part.text };
    case 'image':
      return { type: 'input_image', image_url: part.url, detail: part.detail ?? 'auto' };
    case 'document':
      return isDataUrl(part.url)
        ? { type: 'input_file', filename: part.name, file_data: part.url }
        : { type: 'input_file', file_url: part.url };
    default:
      return assertNever(part);
  }
}

const marks = z.array(outputMark);

/** The items of an answer, in the order in which this provider gave them; text before calls where that is not known. */
function assistantItems(message: AssistantMessage, provider: string): Item[] {
  const text = textOf(message);
  const calls = new Map(
    toolCallsOf(message).map(({ id, name, args }) => [
      id,
      { type: 'function_call' as const, call_id: id, name, arguments: wireArgs(args) },
    ]),
  );
  const own = message.parts.find((part) => part.type === 'reasoning' && part.provider === provider);
  const order = (own?.type === 'reasoning' && marks.safeParse(own.meta).data) || [];
  // Text that was changed since cannot be cut where it was: it goes where its first piece stood.
  const chars = order.reduce((sum, mark) => sum + (mark.type === 'message' ? mark.chars : 0), 0);
  const items: Item[] = [];
  let at = 0;
  for (const mark of order) {
    if (mark.type === 'reasoning') {
      items.push(mark as unknown as Item);
    } else if (mark.type === 'call') {
      const call = calls.get(mark.id);
      if (call) items.push(call);
      calls.delete(mark.id);
    } else if (at < text.length) {
      const end = chars === text.length ? at + mark.chars : text.length;
      if (end > at) items.push(textItem(text.slice(at, end), mark.phase));
      at = end;
    }
  }
  if (at < text.length) items.push(textItem(text.slice(at)));
  items.push(...calls.values());
  // What followed it is gone, and alone it is refused.
  while (items.at(-1)?.type === 'reasoning') items.pop();
  return items;
}

function textItem(content: string, phase?: string): Item {
  const message = { type: 'message' as const, role: 'assistant' as const, content };
  return (phase === undefined ? message : { ...message, phase }) as Item;
}
