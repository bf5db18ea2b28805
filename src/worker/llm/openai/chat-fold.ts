import { z } from 'zod';
import { jsonText } from '../../../shared/base/json.ts';
import type { FinishReason } from '../../../shared/contract/event.ts';
import type { Usage } from '../../../shared/contract/money.ts';
import { AnswerBuilder } from '../answer-builder.ts';
import type { AnswerFold } from './read.ts';
import { pieces, usageFrom, wireText as text, type Unread } from './wire-values.ts';
import type { LlmAnswer, LlmPart } from '../provider.ts';

/** The fields of a chunk, or of a whole completion, that are read. All may be missing: servers differ. */
export interface WireChunk extends Unread<'id' | 'error'> {
  readonly choices?: readonly WireChoice[] | null;
  readonly usage?: WireUsage | null;
}
interface WireChoice extends Unread<'finish_reason'> {
  readonly delta?: WireDelta | null;
  readonly message?: WireDelta | null;
}
interface WireDelta extends Unread<'content' | 'refusal' | 'reasoning_content' | 'reasoning' | 'reasoning_details'> {
  readonly tool_calls?: readonly WireCall[] | null;
}
interface WireCall extends Unread<'index' | 'id' | 'extra_content'> {
  readonly function?: Unread<'name' | 'arguments'> | null;
}
interface WireUsage extends Unread<'prompt_tokens' | 'completion_tokens'> {
  readonly prompt_tokens_details?: Unread<'cached_tokens' | 'cache_write_tokens'> | null;
}

/** A call on the wire: known by its index, begun once its name has come. */
interface OpenCall {
  readonly wireId: string | undefined;
  readonly id: string;
}

const maxProofs = 10_000;

/** What a server wants back with the answer in later steps: proofs of its reasoning as a list, and those of calls with their ids. */
export const chatProofs = z.object({
  details: z.array(z.unknown()).default([]),
  calls: z.array(z.tuple([z.string(), z.unknown()])).default([]),
});
type ChatProofs = z.infer<typeof chatProofs>;

/** Folds the chunks of one chat completion, in one pass, into an answer. */
export class ChatFold implements AnswerFold<WireChunk> {
  /** The usage comes after the finish reason, and servers differ in whether it comes at all. */
  readonly complete = false;
  readonly #builder: AnswerBuilder;
  readonly #calls = new Map<number, OpenCall>();
  readonly #proofs: ChatProofs = { details: [], calls: [] };
  #lastIndex = -1;
  #finish: string | undefined;
  usage: Usage | undefined;
  #id: string | undefined;

  constructor(provider: string, onPart: (part: LlmPart) => void) {
    this.#builder = new AnswerBuilder(provider, onPart);
  }

  get finished(): boolean {
    return this.#finish !== undefined;
  }

  chunk(chunk: WireChunk): void {
    this.#head(chunk);
    const choice = chunk.choices?.[0];
    if (!choice) return;
    if (choice.delta) this.#delta(choice.delta);
    this.#finish = text(choice.finish_reason) ?? this.#finish;
  }

  whole(completion: WireChunk): void {
    this.#head(completion);
    const choice = completion.choices?.[0];
    if (!choice?.message) return;
    const { content, tool_calls, ...rest } = choice.message;
    this.#delta(rest);
    if (typeof content === 'string') for (const piece of pieces(content)) this.#builder.add('text', piece);
    if (Array.isArray(tool_calls)) for (const [index, call] of tool_calls.entries()) this.#call({ ...call, index });
    this.#finish = text(choice.finish_reason) ?? 'stop';
  }

  /** Throws what {@link AnswerBuilder.finish} throws. */
  answer(): LlmAnswer {
    const { details, calls } = this.#proofs;
    return this.#builder.finish({
      finishReason: finishReasonOf(this.#finish),
      usage: this.usage,
      providerRequestId: this.#id,
      reasoningMeta: details.length > 0 || calls.length > 0 ? this.#proofs : undefined,
    });
  }

  #head(chunk: WireChunk): void {
    if (this.#id === undefined && typeof chunk.id === 'string' && chunk.id !== '') this.#id = chunk.id;
    if (chunk.usage) this.usage = usageOf(chunk.usage) ?? this.usage;
  }

  #delta(delta: WireDelta): void {
    const reasoning = delta.reasoning_content ?? delta.reasoning;
    if (typeof reasoning === 'string') this.#builder.add('reasoning', reasoning);
    const { details } = this.#proofs;
    if (Array.isArray(delta.reasoning_details)) {
      const room = Math.max(0, maxProofs - details.length);
      const kept: unknown[] = delta.reasoning_details.slice(0, room);
      if (kept.length > 0) this.#builder.grow(jsonText(kept).length);
      details.push(...kept);
    }
    if (typeof delta.content === 'string') this.#builder.add('text', delta.content);
    if (typeof delta.refusal === 'string') this.#builder.add('text', delta.refusal);
    if (Array.isArray(delta.tool_calls)) for (const call of delta.tool_calls) if (call) this.#call(call);
  }

  /**
   * One fragment of a call. Servers exist that leave the index out, and that give every call index 0: a fragment with a
   * name and another id than the call at its index begins a call of its own, and so does one with a name and no id once the
   * arguments of that call are whole.
   */
  #call(call: WireCall): void {
    const id = text(call.id);
    const name = text(call.function?.name);
    const args = text(call.function?.arguments);
    const begins = id !== undefined && name !== undefined;
    const index =
      typeof call.index === 'number' ? call.index : begins ? this.#lastIndex + 1 : Math.max(0, this.#lastIndex);
    this.#lastIndex = index;
    let open = this.#calls.get(index);
    const isNext = open && (begins ? open.wireId !== id : id === undefined && this.#builder.hasWholeArgs(open.id));
    if (name !== undefined && (!open || isNext)) open = this.#open(index, id, name);
    if (!open) return;
    if (args !== undefined) this.#builder.callArgs(open.id, args);
    if (call.extra_content !== undefined && call.extra_content !== null) this.#prove(open.id, call.extra_content);
  }

  #open(index: number, wireId: string | undefined, name: string): OpenCall {
    const open = { wireId, id: this.#builder.startCall(wireId, name) };
    this.#calls.set(index, open);
    return open;
  }

  #prove(id: string, proof: unknown): void {
    this.#builder.grow(jsonText(proof).length);
    this.#proofs.calls.push([id, proof]);
  }
}

/** What servers call the ends of an answer. Any other word is a stop. */
const finishReasons: Readonly<Record<string, FinishReason>> = {
  length: 'length',
  max_tokens: 'length',
  tool_calls: 'tool_use',
  function_call: 'tool_use',
  content_filter: 'content_filter',
  error: 'error',
  insufficient_system_resource: 'error',
};

function finishReasonOf(wire: string | undefined): FinishReason {
  return finishReasons[wire ?? 'stop'] ?? 'stop';
}

function usageOf(wire: WireUsage): Usage | undefined {
  const { prompt_tokens: prompt, completion_tokens: output, prompt_tokens_details: details } = wire;
  return usageFrom({ prompt, output, cached: details?.cached_tokens, cacheWrite: details?.cache_write_tokens });
}
