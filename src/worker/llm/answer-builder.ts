import { jsonOr } from '../../shared/base/json.ts';
import { defined } from '../../shared/base/collections.ts';
import type { FinishReason } from '../../shared/contract/event.ts';
import type { AssistantPart } from '../../shared/contract/message.ts';
import type { Usage } from '../../shared/contract/money.ts';
import { LlmError, providerError } from './errors.ts';
import type { LlmAnswer, LlmPart } from './provider.ts';

/** Characters of text, reasoning and arguments that one answer may have. */
const maxAnswerChars = 10 * 1024 * 1024;
/** What one tool call weighs beside its arguments, so that empty calls cannot grow without bound either. */
const callWeight = 256;

/** What is known at the end of an answer beside its parts. */
export interface AnswerEnd {
  readonly finishReason: FinishReason;
  readonly usage?: Usage | undefined;
  /** The provider's opaque proof of its reasoning. */
  readonly reasoningMeta?: unknown;
  readonly providerRequestId?: string | undefined;
}

interface GrowingCall {
  readonly id: string;
  readonly name: string;
  args: string;
}

/** Puts an answer together while its parts stream by: every part goes on at once and is kept only as joined text. */
export class AnswerBuilder {
  readonly #provider: string;
  readonly #onPart: (part: LlmPart) => void;
  readonly #calls = new Map<string, GrowingCall>();
  readonly #said = { reasoning: '', text: '' };
  #chars = 0;

  constructor(provider: string, onPart: (part: LlmPart) => void) {
    this.#provider = provider;
    this.#onPart = onPart;
  }

  add(type: 'text' | 'reasoning', delta: string): void {
    if (delta === '') return;
    this.grow(delta.length);
    this.#said[type] += delta;
    this.#onPart({ type, delta });
  }

  /** Emits what the provider does with a tool of its own: no part of the answer. */
  relay(part: Extract<LlmPart, { type: 'tool_relayed_call' | 'tool_relayed_result' }>): void {
    this.#onPart(part);
  }

  /** Begins a tool call and returns its id: the given one, made unique, because models repeat and forget ids. */
  startCall(given: string | undefined, name: string): string {
    this.grow(callWeight + name.length + (given?.length ?? 0));
    const ordinal = this.#calls.size + 1;
    let id = given || `call_${ordinal}`;
    for (let copy = ordinal; this.#calls.has(id); copy++) id = `${(given || 'call').slice(0, 30)}_${copy}`;
    this.#calls.set(id, { id, name, args: '' });
    this.#onPart({ type: 'tool_call_start', id, name });
    return id;
  }

  callArgs(id: string, delta: string): void {
    const call = this.#calls.get(id);
    if (!call || delta === '') return;
    this.grow(delta.length);
    call.args += delta;
    this.#onPart({ type: 'tool_call_delta', id, delta });
  }

  /** Are the arguments of this call JSON already, so that none can follow? */
  hasWholeArgs(id: string): boolean {
    return jsonOr(this.#calls.get(id)?.args ?? '') !== undefined;
  }

  /**
   * The whole answer. Throws `content_filter` for refused content, `overloaded` for an answer that ended in an error of
   * the provider, and the same without retry for one that stops for tools and names none.
   */
  finish(end: AnswerEnd): LlmAnswer {
    const { finishReason, usage, providerRequestId } = end;
    const calls = [...this.#calls.values()];
    const fault = (kind: 'content_filter' | 'overloaded', what: string, retryable?: false) =>
      providerError(kind, this.#provider, what, { usage, retryable });
    if (finishReason === 'content_filter') throw fault('content_filter', 'refused the content');
    if (finishReason === 'error') throw fault('overloaded', 'ended its answer with an error');
    if (finishReason === 'tool_use' && calls.length === 0)
      throw fault('overloaded', 'stopped for tools and called none', false);
    const cutOff = finishReason === 'length' ? calls.filter((call) => jsonOr(call.args) === undefined) : [];
    const whole = calls.filter((call) => !cutOff.includes(call));
    return {
      message: { role: 'assistant', parts: this.#parts(whole, end.reasoningMeta) },
      finishReason,
      incompleteToolCalls: cutOff.map(({ id, name }) => ({ id, name })),
      ...defined({ usage, providerRequestId }),
    };
  }

  #parts(calls: readonly GrowingCall[], meta: unknown): AssistantPart[] {
    const { reasoning, text } = this.#said;
    const parts: AssistantPart[] = [];
    if (reasoning !== '' || meta !== undefined)
      parts.push(defined({ type: 'reasoning', text: reasoning, provider: this.#provider, meta }));
    if (text !== '') parts.push({ type: 'text', text });
    for (const { id, name, args } of calls) parts.push({ type: 'tool_call', id, name, args });
    return parts;
  }

  /** Counts what is kept, also beside the parts, so that it is bounded with them. */
  grow(chars: number): void {
    this.#chars += chars;
    if (this.#chars <= maxAnswerChars) return;
    const text = `the answer of provider ${this.#provider} is over ${maxAnswerChars} characters`;
    throw new LlmError('transport', this.#provider, text);
  }
}
