import { defined } from '../../../shared/base/collections.ts';
import { z } from 'zod';
import type { FinishReason } from '../../../shared/contract/event.ts';
import type { Usage } from '../../../shared/contract/money.ts';
import { AnswerBuilder } from '../answer-builder.ts';
import { errorFromBody } from './errors.ts';
import type { AnswerFold } from './read.ts';
import { pieces, usageFrom, wireText, type Unread } from './wire-values.ts';
import type { LlmAnswer, LlmPart } from '../provider.ts';

/** The fields of a stream event, or of a whole response, that are read. All may be missing: servers differ. */
export interface ResponsesEvent extends Unread<
  'type' | 'error' | 'output_index' | 'item_id' | 'summary_index' | 'delta'
> {
  readonly response?: WireResponse | null;
  readonly item?: WireItem | null;
}
interface WireResponse extends Unread<'id' | 'status' | 'error'> {
  readonly incomplete_details?: Unread<'reason'> | null;
  readonly output?: readonly (WireItem | null)[] | null;
  readonly usage?: WireUsage | null;
}
interface WireItem extends Unread<'type' | 'id' | 'call_id' | 'name' | 'arguments' | 'phase' | 'encrypted_content'> {
  readonly content?: readonly WireContent[] | null;
  readonly summary?: readonly WireContent[] | null;
}
type WireContent = Unread<'type' | 'text' | 'refusal'>;
interface WireUsage extends Unread<'input_tokens' | 'output_tokens'> {
  readonly input_tokens_details?: Unread<'cached_tokens' | 'cache_write_tokens'> | null;
}

/**
 * Where the parts of an answer stood among the provider's own items. Sent back in this order: a server refuses a
 * reasoning item without the item that followed it.
 */
export const outputMark = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('reasoning'),
    id: z.string().optional(),
    summary: z.array(z.unknown()),
    content: z.array(z.unknown()).optional(),
    encrypted_content: z.string().optional(),
  }),
  z.object({ type: z.literal('message'), chars: z.int().min(0), phase: z.string().optional() }),
  z.object({ type: z.literal('call'), id: z.string() }),
]);
type OutputMark = z.infer<typeof outputMark>;

interface OpenItem {
  mark: OutputMark | undefined;
  /** A part of it has been emitted. */
  shown: boolean;
}

const maxItems = 10_000;

/** Folds the events of one response, in one pass, into an answer. */
export class ResponsesFold implements AnswerFold<ResponsesEvent> {
  readonly #provider: string;
  readonly #builder: AnswerBuilder;
  readonly #keepsSession: boolean;
  /** By their place in the output, in the order in which they began. */
  readonly #items = new Map<unknown, OpenItem>();
  #calls = 0;
  #finish: FinishReason | undefined;
  usage: Usage | undefined;
  #id: string | undefined;

  constructor(provider: string, onPart: (part: LlmPart) => void, keepsSession = false) {
    this.#provider = provider;
    this.#builder = new AnswerBuilder(provider, onPart);
    this.#keepsSession = keepsSession;
  }

  get finished(): boolean {
    return this.#finish !== undefined;
  }

  /** The last event has the usage in it. */
  get complete(): boolean {
    return this.finished;
  }

  chunk(event: ResponsesEvent): void {
    switch (event.type) {
      case 'response.created':
      case 'response.in_progress':
      case 'response.queued':
        return this.#head(event.response ?? {});
      case 'response.output_item.added':
        return this.#added(event);
      case 'response.output_item.done':
        return this.#done(itemKeyOf(event), event.item ?? {});
      case 'response.output_text.delta':
      case 'response.refusal.delta':
        return this.#text(this.#itemAt(itemKeyOf(event)), wireText(event.delta) ?? '');
      case 'response.reasoning_summary_part.added':
        if (typeof event.summary_index === 'number' && event.summary_index > 0) this.#builder.add('reasoning', '\n\n');
        return;
      case 'response.reasoning_summary_text.delta':
      case 'response.reasoning_text.delta':
        return this.#reasoning(this.#itemAt(itemKeyOf(event)), wireText(event.delta) ?? '');
      case 'response.function_call_arguments.delta':
        return this.#args(this.#itemAt(itemKeyOf(event)), wireText(event.delta) ?? '');
      case 'response.completed':
      case 'response.incomplete':
      case 'response.failed':
      case 'response.cancelled':
        return this.#end(event.response ?? {}, event.type.slice('response.'.length));
      case 'error':
        throw errorFromBody(this.#provider, event);
      default:
        // Servers add events of their own; none of them carries a part of the answer.
        return;
    }
  }

  whole(response: ResponsesEvent & WireResponse): void {
    if (typeof response.status === 'string') this.#end(response, response.status);
  }

  /** Throws what {@link AnswerBuilder.finish} throws. */
  answer(): LlmAnswer {
    const marks = [...this.#items.values()].map(({ mark }) => mark).filter((mark) => mark !== undefined);
    const isWorthKeeping = marks.some(
      (mark) => mark.type === 'reasoning' || (mark.type === 'message' && mark.phase !== undefined),
    );
    const answer = this.#builder.finish({
      finishReason: this.#finish ?? 'error',
      usage: this.usage,
      providerRequestId: this.#id,
      reasoningMeta: isWorthKeeping ? marks : undefined,
    });
    return { ...answer, ...defined({ sessionToken: this.#keepsSession ? this.#id : undefined }) };
  }

  #head({ id, usage }: WireResponse): void {
    this.#id ??= wireText(id);
    if (!usage) return;
    const { input_tokens: prompt, output_tokens: output, input_tokens_details: details } = usage;
    const { cached_tokens: cached, cache_write_tokens: cacheWrite } = details ?? {};
    this.usage = usageFrom({ prompt, output, cached, cacheWrite }) ?? this.usage;
  }

  #end(response: WireResponse, status: string): void {
    this.#head(response);
    if (status === 'failed') throw errorFromBody(this.#provider, response.error);
    // A server that streamed nothing sends all of it here.
    if (this.#items.size === 0)
      for (const [index, item] of (response.output ?? []).entries()) this.#done(index, item ?? {});
    this.#finish = finishReasonOf(status, response.incomplete_details?.reason, this.#calls > 0);
  }

  #added(event: ResponsesEvent): void {
    const { item } = event;
    const open = this.#itemAt(itemKeyOf(event));
    if (item?.type === 'function_call') this.#call(open, item);
    if (item?.type === 'message') this.#message(open, item);
  }

  /** Emits what did not stream, and keeps what goes back to the server in the next call. */
  #done(place: unknown, item: WireItem): void {
    const open = this.#itemAt(place);
    if (item.type === 'function_call') {
      this.#call(open, item);
      if (!open.shown) this.#args(open, wireText(item.arguments) ?? '');
    } else if (item.type === 'message') {
      this.#message(open, item);
      if (!open.shown) for (const piece of pieces(textIn(item.content))) this.#text(open, piece);
    } else if (item.type === 'reasoning') {
      if (!open.shown) for (const piece of pieces(textIn(item.summary, '\n\n'))) this.#reasoning(open, piece);
      this.#keepReasoning(open, item);
    }
  }

  #call(open: OpenItem, item: WireItem): void {
    const name = wireText(item.name);
    if (open.mark || name === undefined) return;
    this.#calls++;
    open.mark = { type: 'call', id: this.#builder.startCall(wireText(item.call_id) ?? wireText(item.id), name) };
  }

  #args(open: OpenItem, delta: string): void {
    if (open.mark?.type !== 'call') return;
    open.shown ||= delta !== '';
    this.#builder.callArgs(open.mark.id, delta);
  }

  #message(open: OpenItem, { phase }: WireItem): void {
    open.mark ??= { type: 'message', chars: 0 };
    const named = wireText(phase);
    if (open.mark.type === 'message' && named !== undefined) open.mark = { ...open.mark, phase: named };
  }

  #text(open: OpenItem, delta: string): void {
    open.mark ??= { type: 'message', chars: 0 };
    if (open.mark.type !== 'message') return;
    open.mark = { ...open.mark, chars: open.mark.chars + delta.length };
    open.shown ||= delta !== '';
    this.#builder.add('text', delta);
  }

  #reasoning(open: OpenItem, delta: string): void {
    open.shown ||= delta !== '';
    this.#builder.add('reasoning', delta);
  }

  /** Without a proof of its own the item is known to the server only if the server keeps it, which it is asked not to. */
  #keepReasoning(open: OpenItem, { id, summary, content, encrypted_content }: WireItem): void {
    const encrypted = wireText(encrypted_content);
    const hasContent = Array.isArray(content) && content.length > 0;
    if (encrypted === undefined && !hasContent) return;
    this.#builder.grow((encrypted?.length ?? 0) + (hasContent ? textIn(content).length : 0));
    open.mark = defined({
      type: 'reasoning',
      id: wireText(id),
      summary: Array.isArray(summary) ? summary : [],
      content: hasContent ? [...content] : undefined,
      encrypted_content: encrypted,
    });
  }

  #itemAt(place: unknown): OpenItem {
    let open = this.#items.get(place);
    if (!open) {
      open = { mark: undefined, shown: false };
      // Beyond the bound an item is still emitted, but not remembered for the next call.
      if (this.#items.size < maxItems) this.#items.set(place, open);
    }
    return open;
  }
}

/** Ids of items differ between events at some servers, their place in the output does not. */
function itemKeyOf({ output_index, item_id }: ResponsesEvent): unknown {
  return typeof output_index === 'number' ? output_index : item_id;
}

function textIn(content: readonly WireContent[] | null | undefined, between = ''): string {
  if (!Array.isArray(content)) return '';
  return content.map(({ text, refusal }: WireContent) => wireText(text) ?? wireText(refusal) ?? '').join(between);
}

function finishReasonOf(status: string, reason: unknown, hasCalls: boolean): FinishReason {
  if (status === 'completed') return hasCalls ? 'tool_use' : 'stop';
  if (status !== 'incomplete') return 'error';
  return reason === 'content_filter' ? 'content_filter' : 'length';
}
