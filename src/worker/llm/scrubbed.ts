import { withheldMark, type Redactor } from '../../shared/base/redact.ts';
import type { AssistantPart } from '../../shared/contract/message.ts';
import { type LlmAnswer, type LlmPart, type LlmProvider, wrapProvider } from './provider.ts';

/**
 * The same provider, whose answers contain no secret of this process, also none that is split over parts: what a model says
 * goes into events, the journal, threads and other models. The redactor learns the provider's own credentials.
 */
export function scrubbed(provider: LlmProvider, redactor: Redactor): LlmProvider {
  const learn = () => redactor.learn(provider.secrets?.() ?? []);
  return wrapProvider(provider, async (request, onPart, signal) => {
    learn();
    const parts = cleanParts(redactor, onPart);
    try {
      const take = (part: LlmPart) => {
        // A key that was looked up for this call is known by now.
        learn();
        parts.push(part);
      };
      const answer = await provider.generate(request, take, signal);
      learn();
      parts.end();
      return cleanAnswer(answer, redactor);
    } finally {
      learn();
    }
  });
}

/** Hands on parts; the texts among them may come a few characters later. */
function cleanParts(redactor: Redactor, onPart: (part: LlmPart) => void) {
  const streams = { text: redactor.stream(), reasoning: redactor.stream() };
  const emit = (type: 'text' | 'reasoning', delta: string): void => {
    if (delta !== '') onPart({ type, delta });
  };
  return {
    push(part: LlmPart): void {
      switch (part.type) {
        case 'text':
        case 'reasoning':
          return emit(part.type, streams[part.type].push(part.delta));
        case 'tool_call_start':
        case 'tool_relayed_call':
          return onPart({ ...part, ...namedWithout(part, redactor) });
        default:
          // Arguments and results are cleaned when they are whole.
          return onPart(part);
      }
    },
    end(): void {
      emit('reasoning', streams.reasoning.end());
      emit('text', streams.text.end());
    },
  };
}

function cleanAnswer(answer: LlmAnswer, redactor: Redactor): LlmAnswer {
  const { message, incompleteToolCalls } = answer;
  return {
    ...answer,
    message: { ...message, parts: message.parts.map((part) => cleanPart(part, redactor)) },
    incompleteToolCalls: incompleteToolCalls.map((call) => namedWithout(call, redactor)),
  };
}

function cleanPart(part: AssistantPart, redactor: Redactor): AssistantPart {
  if (part.type !== 'tool_call') return { ...part, text: redactor.secrets(part.text) };
  // With a mark of its own, by which the call is refused.
  return { ...part, ...namedWithout(part, redactor), args: redactor.secrets(part.args, withheldMark) };
}

function namedWithout({ id, name }: { readonly id: string; readonly name: string }, redactor: Redactor) {
  return { id: redactor.secrets(id), name: redactor.secrets(name) };
}
