import { cancelledCall } from '../errors.ts';
import { pieces } from '../openai/wire-values.ts';
import type { LlmAnswer, LlmPart, LlmProvider } from '../provider.ts';
import { wrapProvider } from '../wrap.ts';

/**
 * A provider that does not stream, told in pieces once its answer is whole, so that subscribers see the same shape as
 * ever. A provider that streams comes back as it is.
 */
export function inChunks(provider: LlmProvider): LlmProvider {
  if (provider.capabilities.streaming !== false) return provider;
  return wrapProvider(provider, async (request, onPart, signal) => {
    const answer = await provider.generate(request, () => {}, signal);
    for (const part of partsOf(answer)) {
      if (signal.aborted) break;
      onPart(part);
    }
    if (signal.aborted) throw cancelledCall(provider.id, signal, answer.usage);
    return answer;
  });
}

function* partsOf({ message }: LlmAnswer): Generator<LlmPart> {
  for (const part of message.parts) {
    if (part.type === 'tool_call') {
      yield { type: 'tool_call_start', id: part.id, name: part.name };
      yield { type: 'tool_call_delta', id: part.id, delta: part.args };
    } else {
      for (const delta of pieces(part.text)) yield { type: part.type, delta };
    }
  }
}
