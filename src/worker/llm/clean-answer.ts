import { defined } from '../../shared/base/collections.ts';
import { clip, cleanJson, cleanText } from '../../shared/base/text.ts';
import { assertNever } from '../../shared/base/errors.ts';
import { sha256 } from '../../shared/base/ids.ts';
import type { AssistantPart } from '../../shared/contract/message.ts';
import { usage as usageSchema, type Usage } from '../../shared/contract/money.ts';
import type { LlmAnswer, LlmPart } from './provider.ts';

/** Some gateways keep whole proofs of reasoning in the ids of calls, and want them back: only what is longer is no id. */
const maxIdChars = 16_384;
/** No tool has a longer name. */
const maxNameChars = 256;
/** A count of tokens over this is nonsense, and would not fit into sums of money. */
const maxTokens = 1_000_000_000;

/** A whole answer as the rest of the worker takes it: clean texts, ids and names within bounds, a usage that can be. */
export function cleanAnswer(answer: LlmAnswer): LlmAnswer {
  const { message, incompleteToolCalls, usage, providerRequestId, sessionToken, checkpointToken, ...rest } = answer;
  return {
    ...rest,
    message: { role: 'assistant', parts: message.parts.map(cleanPart) },
    incompleteToolCalls: incompleteToolCalls.map(({ id, name }) => ({ id: cleanId(id), name: cleanName(name) })),
    ...defined({
      usage: soundUsage(usage),
      providerRequestId: providerRequestId === undefined ? undefined : cleanName(providerRequestId),
      sessionToken: sessionToken === undefined ? undefined : cleanText(sessionToken),
      checkpointToken: checkpointToken === undefined ? undefined : cleanText(checkpointToken),
    }),
  };
}

/** The usage that a provider reports for a call. Undefined for what no call can use: it counts as not reported. */
export function soundUsage(usage: Usage | undefined): Usage | undefined {
  const parsed = usageSchema.safeParse(usage);
  if (!parsed.success) return undefined;
  return Object.values(parsed.data).every((tokens) => tokens <= 2 * maxTokens) ? parsed.data : undefined;
}

function cleanPart(part: AssistantPart): AssistantPart {
  switch (part.type) {
    case 'text':
      return { ...part, text: cleanText(part.text) };
    case 'reasoning':
      return { ...part, text: cleanText(part.text), ...(part.meta !== undefined && { meta: cleanJson(part.meta) }) };
    case 'tool_call':
      return { ...part, id: cleanId(part.id), name: cleanName(part.name), args: cleanText(part.args) };
    default:
      return assertNever(part);
  }
}

/** The same for the same id, wherever it appears. */
function cleanId(id: string): string {
  const whole = cleanText(id);
  return whole.length <= maxIdChars ? whole : `${clip(whole, 64)}:${sha256(whole).slice(0, 32)}`;
}

function cleanName(name: string): string {
  return clip(cleanText(name), maxNameChars);
}

type Delta = Extract<LlmPart, { readonly delta: string }>;

/**
 * The parts of an answer on their way to subscribers, in clean texts. A stream may break between the halves of a character:
 * the first half waits for the next part of its kind.
 */
export class CleanParts {
  readonly #emit: (part: LlmPart) => void;
  readonly #halves = new Map<string, { readonly half: string; readonly part: Delta }>();

  constructor(emit: (part: LlmPart) => void) {
    this.#emit = emit;
  }

  take(part: LlmPart): void {
    switch (part.type) {
      case 'text':
      case 'reasoning':
        return this.#delta(part.type, part);
      case 'tool_call_delta':
        return this.#delta(`args ${part.id}`, { ...part, id: cleanId(part.id) });
      case 'tool_call_start':
        return this.#emit({ ...part, id: cleanId(part.id), name: cleanName(part.name) });
      case 'tool_relayed_call':
        return this.#emit({ ...part, id: cleanId(part.id), name: cleanName(part.name), args: cleanJson(part.args) });
      case 'tool_relayed_result':
        return this.#emit({ ...part, id: cleanId(part.id), output: cleanText(part.output) });
      default:
        assertNever(part);
    }
  }

  /** The answer is whole: halves that still wait are halves for good. */
  end(): void {
    for (const { half, part } of this.#halves.values()) this.#emit({ ...part, delta: cleanText(half) });
    this.#halves.clear();
  }

  #delta(stream: string, part: Delta): void {
    const text = (this.#halves.get(stream)?.half ?? '') + part.delta;
    const half = /[\uD800-\uDBFF]$/.exec(text)?.[0];
    if (half === undefined) this.#halves.delete(stream);
    else this.#halves.set(stream, { half, part });
    const delta = cleanText(half === undefined ? text : text.slice(0, -1));
    if (delta !== '') this.#emit({ ...part, delta });
  }
}
