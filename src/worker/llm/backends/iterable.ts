import { defined } from '../../../shared/base/collections.ts';
import { assertNever } from '../../../shared/base/errors.ts';
import type { FinishReason } from '../../../shared/contract/event.ts';
import type { Sensitivity } from '../../../shared/contract/message.ts';
import type { Usage } from '../../../shared/contract/money.ts';
import { AnswerBuilder } from '../answer-builder.ts';
import { cancelledCall } from '../errors.ts';
import type { InputKind, LlmPart, LlmProvider, LlmRequest, ProviderCapabilities } from '../provider.ts';
import { untilAborted } from '../watchdog.ts';

/** What a generator may yield beside parts: how the answer ended, and what it used. The last one counts. */
export interface IterableEnd {
  readonly type: 'end';
  readonly finishReason?: FinishReason;
  readonly usage?: Usage;
}

export interface IterableOptions {
  readonly id?: string;
  readonly capabilities?: ProviderCapabilities;
  /** What it reads. The request then has `readFile` for the bytes. Default: text. */
  readonly input?: readonly InputKind[];
  /** Default: public texts only. */
  readonly acceptsSensitivity?: readonly Sensitivity[];
}

/**
 * Any async generator as a provider. A generator that returns has answered: without an `end` it stopped, for tools when
 * it called any. What it throws fails the call. It is asked to stop (`return()`) when the call is cancelled.
 */
export function createIterableBackend(
  generator: (request: LlmRequest, signal: AbortSignal) => AsyncIterable<LlmPart | IterableEnd>,
  options: IterableOptions = {},
): LlmProvider {
  const { id = 'iterable', capabilities = { tools: true, reasoning: true }, acceptsSensitivity, input } = options;
  return {
    id,
    capabilities,
    ...defined({ acceptsSensitivity, inputOf: input && (() => input) }),
    async generate(request, onPart, signal) {
      if (signal.aborted) throw cancelledCall(id, signal);
      const builder = new AnswerBuilder(id, onPart);
      const started = new Map<string, string>();
      let end: IterableEnd | undefined;
      try {
        for await (const part of untilAborted(generator(request, signal), signal)) {
          if (part.type === 'end') end = part;
          else add(part, builder, started);
        }
      } catch (error) {
        throw signal.aborted ? cancelledCall(id, signal) : error;
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
  switch (part.type) {
    case 'text':
    case 'reasoning':
      return builder.add(part.type, part.delta);
    case 'tool_call_start':
      started.set(part.id, builder.startCall(part.id, part.name));
      return;
    case 'tool_call_delta':
      return builder.callArgs(started.get(part.id) ?? part.id, part.delta);
    case 'tool_relayed_call':
    case 'tool_relayed_result':
      return builder.relay(part);
    default:
      assertNever(part);
  }
}
