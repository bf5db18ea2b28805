import { z } from 'zod';
import { assertNever, RunError } from '../../shared/base/errors.ts';
import { defined } from '../../shared/base/collections.ts';
import { parseSafely, safeInput } from '../client/accept/validate.ts';
import type { HistoryMessage } from '../../shared/contract/request/history.ts';
import type { WireOrigin } from '../../shared/contract/request/wire.ts';
import type { RunRequestInput } from '../../shared/contract/run.ts';
import { chatFields, chatRequest } from './chat-request.ts';
import { extrasOf } from './extras.ts';
import { leftToAgent, withoutNulls } from './fields.ts';
import { conversationOf, saidInChat, saidInInput, type Conversation } from './messages.ts';
import { responseFields, responseRequest, type ResponseRequest } from './response-request.ts';

export type WireEndpoint = WireOrigin['endpoint'];

/** The response that a request continues. */
export interface PreviousTurn {
  readonly runId: string;
  /** It is in a thread, where its conversation is. */
  readonly thread: string | undefined;
  /** Otherwise: what was said up to its answer. */
  readonly history: readonly HistoryMessage[];
}

/** What is known of a request beside its body. */
export interface WireCaller {
  /** What `previous_response_id` of the body names. Absent: the field is refused. */
  readonly previous?: PreviousTurn | undefined;
  /** A line of a batch cannot be streamed, and is in the background anyway. */
  readonly isBatchLine?: boolean;
}

/**
 * The run that a request of OpenAI's API asks for. Throws `validation` with every problem as path and message, and what
 * `parseRequest` throws for what is not safe.
 */
export function runRequestOf(endpoint: WireEndpoint, body: unknown, caller: WireCaller = {}): RunRequestInput {
  switch (endpoint) {
    case '/v1/chat/completions':
      return chatRun(body, caller);
    case '/v1/responses':
      return responseRun(body, caller);
    default:
      return assertNever(endpoint);
  }
}

/** The fields of a body that the agent decides, by name. */
export function fieldsLeftToAgent(endpoint: WireEndpoint, body: unknown): readonly string[] {
  if (endpoint === '/v1/chat/completions') return leftToAgent(chatFields, body);
  const hasVerbosity = z.looseObject({ text: z.looseObject({ verbosity: z.string() }) }).safeParse(body).success;
  return [...leftToAgent(responseFields, body), ...(hasVerbosity ? ['text.verbosity'] : [])];
}

/** The path by which the caller of this endpoint knows a field of the run. */
export function wireNameOf(endpoint: WireEndpoint): (path: string) => string {
  const names = endpoint === '/v1/responses' ? responseNames : chatNames;
  return (path) => {
    const [first = '', ...rest] = path.split('.');
    const name = names[first];
    return name === undefined ? path : [name, ...(first === 'history' ? [] : rest)].join('.');
  };
}

const runNames = {
  agent: 'model',
  agentVersion: 'model',
  thread: 'metadata.thread',
  onBusy: 'metadata.on_busy',
  queue: 'metadata.queue',
  budget: 'metadata.max_cost_usd',
  deadlineMs: 'metadata.deadline_ms',
};
const chatNames: Readonly<Record<string, string>> = {
  ...runNames,
  input: 'messages',
  history: 'messages',
  instructions: 'messages',
  outputSchema: 'response_format',
};
const responseNames: Readonly<Record<string, string>> = { ...runNames, history: 'input', outputSchema: 'text.format' };

/** Throws `too_deep`, `secret_in_payload`, `validation`. */
function parsed<T extends z.ZodType>(schema: T, body: unknown): z.output<T> {
  return parseSafely(schema, '', withoutNulls(safeInput(body)));
}

function chatRun(body: unknown, caller: WireCaller): RunRequestInput {
  const asked = parsed(chatRequest, body);
  refuseStream(asked, caller);
  const said = conversationOf(saidInChat(asked.messages), 'messages');
  const { response_format: format, max_completion_tokens, max_tokens } = asked;
  return runOf(asked, said, {
    wire: { endpoint: '/v1/chat/completions', model: asked.model },
    maxOutputTokens: max_completion_tokens ?? max_tokens,
    outputSchema: format?.type === 'json_schema' ? format.json_schema.schema : undefined,
  });
}

function responseRun(body: unknown, caller: WireCaller): RunRequestInput {
  const asked = parsed(responseRequest, body);
  refuseStream(asked, caller);
  const previous = previousOf(asked, caller);
  const { conversation: named, text, background, store } = asked;
  const conversation = typeof named === 'object' ? named.id : named;
  if (conversation !== undefined && asked.metadata?.['thread'] !== undefined)
    throw wrong('conversation', 'cannot be given with metadata.thread, which is the same');
  if (conversation !== undefined && store === false)
    throw wrong('store', 'false cannot be given with conversation, which keeps the answer');
  if (background && store === false) throw wrong('background', 'cannot be given with store: false');
  const said = conversationOf(saidInInput(asked.input), 'input');
  const own = asked.instructions === undefined ? [] : [asked.instructions];
  const whole: Conversation = {
    ...said,
    history: [...(previous?.history ?? []), ...said.history],
    instructions: [...own, ...said.instructions],
  };
  return runOf(asked, whole, {
    wire: defined({
      endpoint: '/v1/responses' as const,
      model: asked.model,
      previous: previous?.runId,
      conversation,
      background: background ? (true as const) : undefined,
    }),
    thread: conversation ?? previous?.thread,
    maxOutputTokens: asked.max_output_tokens,
    maxToolCalls: asked.max_tool_calls,
    outputSchema: text?.format?.type === 'json_schema' ? text.format.schema : undefined,
  });
}

/** What a body says about its run, in our words. */
interface Wishes {
  readonly wire: WireOrigin;
  readonly thread?: string | undefined;
  readonly maxOutputTokens: number | undefined;
  readonly maxToolCalls?: number | undefined;
  readonly outputSchema: RunRequestInput['outputSchema'];
}

function runOf(
  asked: Pick<ResponseRequest, 'model' | 'metadata' | 'store'>,
  { history, input, instructions }: Conversation,
  { wire, thread, maxOutputTokens, maxToolCalls, outputSchema }: Wishes,
): RunRequestInput {
  const { metadata, store } = asked;
  const extras = extrasOf(metadata);
  const limits = defined({ ...extras.limits, maxToolCalls });
  return defined({
    ...agentNamed(asked.model),
    ...extras,
    input: typeof input === 'string' ? input : [...input],
    thread: thread ?? extras.thread,
    history: history.length > 0 ? [...history] : undefined,
    instructions: instructions.length > 0 ? instructions.join('\n\n') : undefined,
    outputSchema,
    metadata,
    overrides: maxOutputTokens === undefined ? undefined : { maxOutputTokens },
    limits: Object.keys(limits).length > 0 ? limits : undefined,
    store: store === false ? (false as const) : undefined,
    wire,
  });
}

/** `agent`, `agent:NAME` or either with `@version`. */
export function agentNamed(model: string): { readonly agent: string; readonly agentVersion?: string } {
  const [name = '', ...version] = model.replace(/^agent:/, '').split('@');
  return defined({ agent: name, agentVersion: version.length > 0 ? version.join('@') : undefined });
}

function previousOf(asked: ResponseRequest, { previous }: WireCaller): PreviousTurn | undefined {
  const { previous_response_id: id, conversation, metadata } = asked;
  if (id === undefined) return undefined;
  if (conversation !== undefined) throw wrong('previous_response_id', 'cannot be given with conversation');
  if (!previous) throw wrong('previous_response_id', 'is refused: a line of a batch continues nothing');
  if (metadata?.['thread'] !== undefined) throw wrong('previous_response_id', 'cannot be given with metadata.thread');
  return previous;
}

function refuseStream(asked: Pick<ResponseRequest, 'stream' | 'background'>, { isBatchLine }: WireCaller): void {
  if (!isBatchLine) return;
  if (asked.stream) throw wrong('stream', 'is refused: a line of a batch is answered in the output file');
  if (asked.background) throw wrong('background', 'is refused: a line of a batch is in the background anyway');
}

function wrong(path: string, message: string): RunError {
  return new RunError('validation', `the request is not valid: ${path}: ${message}`, { details: [{ path, message }] });
}
