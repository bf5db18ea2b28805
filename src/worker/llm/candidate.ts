import { defined } from '../../shared/base/collections.ts';
import { assertNever } from '../../shared/base/errors.ts';
import type { EventBody } from '../../shared/contract/event.ts';
import { cancelledCall, LlmError, type Backoff, type LlmErrorKind, providerError } from './errors.ts';
import type { LlmProvider, LlmRequest } from './provider.ts';
import { withoutReasoning, type Message, type Sensitivity, type ToolMessage } from '../../shared/contract/message.ts';
import { isRecord, jsonText } from '../../shared/base/json.ts';

/** One entry of the plan: a model of a provider and how often it is tried. */
export interface Candidate {
  readonly provider: LlmProvider;
  readonly model: string;
  readonly maxAttempts: number;
  readonly backoff: Backoff;
}

export interface ChainPolicy {
  /** Refused credentials lead to the next candidate. */
  readonly fallbackOnAuth?: boolean;
  /** A stream that breaks off after its first part is declared void and made again. */
  readonly retryMidStream?: boolean;
}

export interface ModelName {
  readonly provider: string;
  readonly model: string;
}

export interface ChainRequest extends Omit<LlmRequest, 'model' | 'isFallback'> {
  /** Who gave the session and checkpoint tokens: no other provider gets them. */
  readonly sessionOf?: ModelName | undefined;
  /** The first of the plan. */
  readonly primary?: ModelName | undefined;
}

export function nameOf({ provider, model }: Candidate): ModelName {
  return { provider: provider.id, model };
}

export function sameName(one: ModelName | undefined, two: ModelName): boolean {
  return one?.provider === two.provider && one.model === two.model;
}

export type Fallback = Omit<Extract<EventBody, { type: 'agent.model.fellback' }>, 'type'>;

/**
 * The request as this candidate gets it. Reasoning of another provider never goes out, and none at all when the last
 * attempt went elsewhere: what a provider wrote before the switch no longer fits the conversation it sees now. Tool
 * results above what it accepts are withheld, and tokens of a session go only to who gave them.
 */
export function requestFor(
  candidate: Candidate,
  request: ChainRequest,
  lastProvider: string | undefined,
  maxOutputTokens: number | undefined = request.maxOutputTokens,
): LlmRequest {
  const { provider, model } = candidate;
  const name = nameOf(candidate);
  const switched = lastProvider !== undefined && lastProvider !== provider.id;
  const { reasoningEffort, sessionOf, primary, sessionToken, checkpointToken, ...rest } = request;
  const isOwnSession = sameName(sessionOf, name);
  const isFallback = primary !== undefined && !sameName(primary, name);
  const ownReasoning = withoutReasoning(request.messages, switched ? undefined : provider.id);
  const messages = withinSensitivity(ownReasoning, provider.acceptsSensitivity);
  return {
    ...rest,
    ...defined({
      sessionToken: isOwnSession ? sessionToken : undefined,
      checkpointToken: isOwnSession ? checkpointToken : undefined,
      isFallback: isFallback || undefined,
      maxOutputTokens,
      reasoningEffort: provider.capabilities.reasoning ? reasoningEffort : undefined,
    }),
    model,
    messages: withJsonInstruction(messages, provider.capabilities.responseFormat ? undefined : request.responseFormat),
  };
}

/** What a failure leads to: the same candidate again, the next one, or the end of the step. */
export function followUp(error: LlmError, partsSeen: boolean, attemptsLeft: number, policy: ChainPolicy = {}) {
  // A second answer after parts of a first one would show subscribers two texts as one, unless they are asked to forget the first.
  if (partsSeen && !policy.retryMidStream) return 'stop';
  switch (error.kind) {
    case 'rate_limit':
    case 'overloaded':
    case 'timeout':
    case 'transport':
      return error.retryable && attemptsLeft > 0 ? 'retry' : 'next';
    case 'context_length':
      return 'next';
    case 'auth':
      return policy.fallbackOnAuth ? 'next' : 'stop';
    case 'bad_request':
    case 'content_filter':
    case 'cancelled':
    case 'unknown':
      return 'stop';
    default:
      return assertNever(error.kind);
  }
}

export function fallbackFrom(from: Candidate, error: LlmError, to: Candidate, step: number, attempt: number): Fallback {
  const names = { from: from.model, to: to.model, previousModel: from.model, nextModel: to.model };
  return { ...names, reason: fallbackReasons[error.kind] ?? 'transient', stepNumber: step, attempt };
}

const fallbackReasons: Readonly<Partial<Record<LlmErrorKind, Fallback['reason']>>> = {
  rate_limit: 'rate-limit',
  overloaded: 'capacity',
  context_length: 'context-length',
};

/** Whatever a provider threw as a model error; always `cancelled` once the signal is aborted. */
export function asLlmError(thrown: unknown, provider: string, signal: AbortSignal): LlmError {
  const error = thrown instanceof LlmError ? thrown : undefined;
  if (signal.aborted && error?.kind !== 'cancelled') return cancelledCall(provider, signal, error?.usage);
  return error ?? providerError('unknown', provider, 'failed in an unknown way', { cause: thrown });
}

type Labelled = ToolMessage | Extract<Message, { role: 'user' }>;

/**
 * The messages as a provider may see them: tool results and summaries that it does not accept are replaced by a notice.
 * The same array when nothing changes. A result without a label is public; what users write themselves goes to every provider.
 */
export function withinSensitivity(messages: readonly Message[], accepts: readonly Sensitivity[] = ['public']) {
  const isRefused = (message: Message): message is Labelled => {
    if (message.role === 'tool') return !accepts.includes(message.sensitivity ?? 'public');
    return message.role === 'user' && message.sensitivity !== undefined && !accepts.includes(message.sensitivity);
  };
  if (!messages.some(isRefused)) return messages;
  return messages.map((message) => (isRefused(message) ? withheld(message) : message));
}

function withheld(message: Labelled): Message {
  const content = noticeOf(message);
  if (message.role === 'tool') return { ...message, content };
  return defined({ ...message, content, files: undefined });
}

function noticeOf(message: Labelled): string {
  const { sensitivity = 'public' } = message;
  const what = message.role === 'tool' ? `the result of ${message.toolName}` : 'a summary of the conversation';
  return `[${what} is withheld: it is ${sensitivity}, and this model's provider may not see ${sensitivity} data]`;
}

/**
 * The messages with the wanted shape of the answer at the end of the system text, for providers that do not promise to
 * keep to a response format. The same array when there is none.
 */
function withJsonInstruction(
  messages: readonly Message[],
  responseFormat: Readonly<Record<string, unknown>> | undefined,
): readonly Message[] {
  if (!responseFormat) return messages;
  const text = instructionFor(responseFormat);
  const [first, ...rest] = messages;
  if (first?.role !== 'system') return [{ role: 'system', content: text }, ...messages];
  return [{ role: 'system', content: `${first.content}\n\n${text}` }, ...rest];
}

function instructionFor({ json_schema: named }: Readonly<Record<string, unknown>>): string {
  const schema = isRecord(named) ? named['schema'] : undefined;
  const shape = schema === undefined ? '' : ` that matches this JSON Schema: ${jsonText(schema)}`;
  return `Your final answer must be nothing but JSON, without a code fence around it${shape}`;
}
