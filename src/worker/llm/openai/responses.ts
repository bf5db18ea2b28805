import { createOpenAiProvider, type OpenAiOptions } from './call.ts';
import { ResponsesFold, type ResponsesEvent } from './responses-fold.ts';
import { responsesBody } from './responses-wire.ts';
import type { LlmProvider } from '../provider.ts';

export interface OpenAiResponsesOptions extends OpenAiOptions {
  /** Does this model reason? Default: as the capabilities say. Models that do not refuse to be asked for reasoning. */
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
  const { id, capabilities, reasons, reasoningSummary, sessions = false, streams = true } = options;
  return createOpenAiProvider<ResponsesEvent>(options, {
    send: (client, request, sendOptions) =>
      client.responses.create(
        responsesBody(request, {
          provider: id,
          reasons: (capabilities?.reasoning ?? true) && (reasons?.(request.model) ?? true),
          reasoningSummary,
          keepsSession: sessions,
          streams,
          sendsMetadata: options.sendsMetadata ?? false,
        }),
        sendOptions,
      ),
    fold: (onPart) => new ResponsesFold(id, onPart, sessions),
  });
}
