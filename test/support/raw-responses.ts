import { data, stream, type Reply } from './raw-provider.ts';

/** What a well-behaved model says through the Responses interface. */
export interface ResponsesSaying {
  readonly reasoning?: { readonly summary?: string; readonly encrypted?: string };
  readonly text?: readonly string[];
  readonly refusal?: string;
  /** Each with its arguments in pieces. */
  readonly calls?: readonly { readonly id: string; readonly name: string; readonly args: readonly string[] }[];
  /** The pieces of the calls take turns. */
  readonly interleaved?: boolean;
  /** Default `completed`. */
  readonly end?: { readonly status: string; readonly [field: string]: unknown } | null;
  /** As on the wire; null: none. */
  readonly usage?: Readonly<Record<string, unknown>> | null;
}

const responseId = 'resp_raw';
export const responsesUsage = { input_tokens: 100, output_tokens: 20, total_tokens: 120 };

/** The events of an answer, as OpenAI streams them. With `end: null` the last one is missing. */
export function responsesEvents(saying: ResponsesSaying): string[] {
  const items = itemsOf(saying);
  const events: object[] = [
    { type: 'response.created', response: { id: responseId, status: 'in_progress', output: [] } },
  ];
  for (const [index, item] of items.entries()) {
    if (item.type === 'function_call' && saying.interleaved) continue;
    events.push(...streamOf(item, index, saying));
  }
  if (saying.interleaved) events.push(...interleaved(items, saying));
  const { end = { status: 'completed' } } = saying;
  if (end) {
    const usage = saying.usage === undefined ? responsesUsage : saying.usage;
    const response = { id: responseId, output: items, ...(usage && { usage }), error: null, ...end };
    events.push({ type: `response.${end.status}`, response });
  }
  return events.map((event, sequence_number) => data({ sequence_number, ...event }));
}

/** Streams the answer; the connection stays open after it, as it may with a real server. */
export function responses(saying: ResponsesSaying): Reply {
  return stream(...responsesEvents(saying));
}

/** The whole answer, as a server that does not stream gives it. */
export function wholeResponse(saying: ResponsesSaying): unknown {
  const usage = saying.usage === undefined ? responsesUsage : saying.usage;
  return { id: responseId, object: 'response', status: 'completed', error: null, output: itemsOf(saying), usage };
}

interface Item {
  readonly type: string;
  readonly id: string;
  readonly [field: string]: unknown;
}

function itemsOf({ reasoning, text, refusal, calls = [] }: ResponsesSaying): Item[] {
  const items: Item[] = [];
  if (reasoning) {
    const summary = reasoning.summary === undefined ? [] : [{ type: 'summary_text', text: reasoning.summary }];
    const encrypted = reasoning.encrypted;
    items.push({ type: 'reasoning', id: 'rs_1', summary, ...(encrypted && { encrypted_content: encrypted }) });
  }
  if (text) {
    const content = [{ type: 'output_text', text: text.join(''), annotations: [] }];
    items.push({ type: 'message', id: 'msg_1', role: 'assistant', status: 'completed', content });
  }
  if (refusal !== undefined) {
    const content = [{ type: 'refusal', refusal }];
    items.push({ type: 'message', id: 'msg_2', role: 'assistant', status: 'completed', content });
  }
  for (const [index, { id, name, args }] of calls.entries()) {
    items.push({ type: 'function_call', id: `fc_${index}`, call_id: id, name, arguments: args.join('') });
  }
  return items;
}

function* streamOf(item: Item, output_index: number, saying: ResponsesSaying): Generator<object> {
  const at = { output_index, item_id: item.id };
  if (item.type === 'reasoning') {
    yield {
      type: 'response.output_item.added',
      output_index,
      item: { ...item, summary: [], encrypted_content: 'part' },
    };
    for (const piece of (saying.reasoning?.summary ?? '').match(/\s*\S+/g) ?? []) {
      yield { type: 'response.reasoning_summary_text.delta', ...at, summary_index: 0, delta: piece };
    }
  } else if (item.type === 'message') {
    yield { type: 'response.output_item.added', output_index, item: { ...item, status: 'in_progress', content: [] } };
    if (item.id === 'msg_2') yield { type: 'response.refusal.delta', ...at, content_index: 0, delta: saying.refusal };
    else {
      for (const delta of saying.text ?? []) {
        yield { type: 'response.output_text.delta', ...at, content_index: 0, delta };
      }
    }
  } else {
    yield { type: 'response.output_item.added', output_index, item: { ...item, arguments: '' } };
    for (const delta of saying.calls?.find(({ id }) => id === item['call_id'])?.args ?? []) {
      yield { type: 'response.function_call_arguments.delta', ...at, delta };
    }
    yield { type: 'response.function_call_arguments.done', ...at, arguments: item['arguments'] };
  }
  yield { type: 'response.output_item.done', output_index, item };
}

function* interleaved(items: readonly Item[], { calls = [] }: ResponsesSaying): Generator<object> {
  const places = items.flatMap((item, index) => (item.type === 'function_call' ? [{ item, index }] : []));
  for (const { item, index } of places) {
    yield { type: 'response.output_item.added', output_index: index, item: { ...item, arguments: '' } };
  }
  const longest = Math.max(0, ...calls.map(({ args }) => args.length));
  for (let piece = 0; piece < longest; piece++) {
    for (const [call, { item, index }] of places.entries()) {
      const delta = calls[call]?.args[piece];
      if (delta !== undefined) {
        yield { type: 'response.function_call_arguments.delta', output_index: index, item_id: item.id, delta };
      }
    }
  }
  for (const { item, index } of places) yield { type: 'response.output_item.done', output_index: index, item };
}
