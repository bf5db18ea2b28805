import type { FinishReason } from '../../shared/event.ts';
import type { Usage } from '../../shared/money.ts';
import { AnswerBuilder } from './answer-builder.ts';
import { cancelledCall } from './errors.ts';
import type { LlmPart, LlmProvider, LlmRequest, ProviderCapabilities } from './provider.ts';

/** What a generator may yield beside parts: how the answer ended, and what it used. The last one counts. */
export interface IterableEnd {
  readonly type: 'end';
  readonly finishReason?: FinishReason;
  readonly usage?: Usage;
}

export interface IterableOptions {
  readonly id?: string;
  readonly capabilities?: ProviderCapabilities;
}

/**
 * Any async generator as a provider. A generator that returns has answered: without an `end` it stopped, for tools when
 * it called any. What it throws fails the call. It is told to stop (`return()`) when the call is cancelled.
 */
export function createIterableProvider(
  generator: (request: LlmRequest, signal: AbortSignal) => AsyncIterable<LlmPart | IterableEnd>,
  { id = 'iterable', capabilities = { tools: true, reasoning: true } }: IterableOptions = {},
): LlmProvider {
  return {
    id,
    capabilities,
    async generate(request, onPart, signal) {
      const builder = new AnswerBuilder(id, onPart);
      const started = new Map<string, string>();
      let end: IterableEnd | undefined;
      for await (const part of generator(request, signal)) {
        if (signal.aborted) throw cancelledCall(id, signal);
        if (part.type === 'end') end = part;
        else add(part, builder, started);
      }
      if (signal.aborted) throw cancelledCall(id, signal);
      return builder.finish({
        finishReason: end?.finishReason ?? (started.size > 0 ? 'tool_use' : 'stop'),
        usage: end?.usage,
      });
    },
  };
}

function add(part: LlmPart, builder: AnswerBuilder, started: Map<string, string>): void {
  if (part.type === 'text') builder.text(part.delta);
  else if (part.type === 'reasoning') builder.reasoning(part.delta);
  else if (part.type === 'tool_call_start') started.set(part.id, builder.startCall(part.id, part.name));
  else builder.callArgs(started.get(part.id) ?? part.id, part.delta);
}
