import { createOpenAiProvider, type OpenAiOptions } from './call.ts';
import { ChatFold, type WireChunk } from './chat-fold.ts';
import { chatBody, type WireOptions } from './chat-wire.ts';
import type { LlmProvider } from '../provider.ts';

/**
 * Any server that speaks OpenAI's chat completions. One call makes one request: no retries. Throws `invalid_config` when
 * the base URL or the key is missing.
 */
export function createOpenAiChatProvider(options: OpenAiOptions): LlmProvider {
  const { id, baseUrl, streams = true, sendsMetadata = false } = options;
  return createOpenAiProvider<WireChunk>(options, {
    send(client, request, sendOptions) {
      const wire: WireOptions = {
        provider: id,
        maxTokensField: isOpenAi(baseUrl) ? 'max_completion_tokens' : 'max_tokens',
        streams,
        sendsMetadata,
      };
      return client.chat.completions.create(chatBody(request, wire), sendOptions);
    },
    fold: (onPart) => new ChatFold(id, onPart),
  });
}

function isOpenAi(baseUrl: string): boolean {
  return /(^|\.)openai\.(azure\.)?com$/.test(new URL(baseUrl).hostname);
}
