import { withheldMark, type Redactor, type SecretStream } from '../../shared/base/redact.ts';
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
    const parts = new CleanParts(redactor, onPart);
    try {
      const answer = await provider.generate(
        request,
        (part) => {
          // A key that was looked up for this call is known by now.
          learn();
          parts.push(part);
        },
        signal,
      );
      learn();
      parts.end();
      return cleanAnswer(answer, redactor);
    } catch (thrown) {
      learn();
      throw thrown;
    }
  });
}

/** Hands on parts; the texts among them may come a few characters later. */
class CleanParts {
  readonly #redactor: Redactor;
  readonly #onPart: (part: LlmPart) => void;
  readonly #streams: Readonly<Record<'text' | 'reasoning', SecretStream>>;

  constructor(redactor: Redactor, onPart: (part: LlmPart) => void) {
    this.#redactor = redactor;
    this.#onPart = onPart;
    this.#streams = { text: redactor.stream(), reasoning: redactor.stream() };
  }

  push(part: LlmPart): void {
    switch (part.type) {
      case 'text':
      case 'reasoning':
        return this.#emit(part.type, this.#streams[part.type].push(part.delta));
      case 'tool_call_start':
      case 'tool_relayed_call':
        return this.#onPart({ ...part, id: this.#redactor.secrets(part.id), name: this.#redactor.secrets(part.name) });
      default:
        // Arguments and results are cleaned when they are whole.
        return this.#onPart(part);
    }
  }

  end(): void {
    this.#emit('reasoning', this.#streams.reasoning.end());
    this.#emit('text', this.#streams.text.end());
  }

  #emit(type: 'text' | 'reasoning', delta: string): void {
    if (delta !== '') this.#onPart({ type, delta });
  }
}

function cleanAnswer(answer: LlmAnswer, redactor: Redactor): LlmAnswer {
  const { message, incompleteToolCalls } = answer;
  return {
    ...answer,
    message: { ...message, parts: message.parts.map((part) => cleanPart(part, redactor)) },
    incompleteToolCalls: incompleteToolCalls.map(({ id, name }) => ({
      id: redactor.secrets(id),
      name: redactor.secrets(name),
    })),
  };
}

function cleanPart(part: AssistantPart, redactor: Redactor): AssistantPart {
  if (part.type !== 'tool_call') return { ...part, text: redactor.secrets(part.text) };
  const { id, name, args } = part;
  // With a mark of its own, by which the call is refused.
  return {
    ...part,
    id: redactor.secrets(id),
    name: redactor.secrets(name),
    args: redactor.secrets(args, withheldMark),
  };
}
