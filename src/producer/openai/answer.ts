import { assertNever, RunError } from '../../shared/base/errors.ts';
import { microcentsPerUsd, type RunUsage } from '../../shared/contract/money.ts';
import { isTerminalStatus, type RunRequestInput, type RunStatus, type RunView } from '../../shared/contract/run.ts';
import { grossInput } from '../../shared/dialects/dialect.ts';
import { wireErrorOf, type WireError } from './wire-error.ts';
import { runRequestOf, type WireEndpoint } from './run-request.ts';

/** As much of a run as its answers need. */
export type AnsweredRun = Pick<
  RunView,
  'runId' | 'status' | 'result' | 'error' | 'usage' | 'costMicrocents' | 'steps' | 'createdAt' | 'endedAt'
>;

/** The answer to a request of OpenAI's API, from the run that it asked for and that has ended. */
export function answerOf(endpoint: WireEndpoint, run: AnsweredRun, body: unknown): object {
  const request = runRequestOf(endpoint, body, { isBatchLine: true });
  return endpoint === '/v1/responses' ? responseOf(run, request) : chatCompletionOf(run, request);
}

/** The error that a run ended with, which names it. Undefined: it has an answer. Its run has had its tries: a repeat finds the same. */
export function errorOf({ runId, status, error }: AnsweredRun): RunError | undefined {
  const failed = status === 'cancelled' ? ({ code: 'cancelled', message: 'the run was cancelled' } as const) : error;
  return failed && new RunError(failed.code, failed.message, { details: { runId }, retryable: false });
}

/** The same as an answer. */
export function failureOf(run: AnsweredRun): { readonly status: number; readonly body: WireError } | undefined {
  const error = errorOf(run);
  if (!error) return undefined;
  const { code, message, retryable, details, http } = error;
  return { status: http, body: wireErrorOf({ code, message, retryable, details }, http) };
}

export function responseIdOf(runId: string): string {
  return `resp_${runId}`;
}

export function chatIdOf(runId: string): string {
  return `chatcmpl-${runId}`;
}

/** Of the answer; a run may say more before it, in earlier steps. */
export function messageIdOf(runId: string, step: number): string {
  return `msg_${runId}_${step}`;
}

/** Whole seconds since the epoch. */
export function secondsOf(iso: string): number {
  return Math.floor(Date.parse(iso) / 1_000);
}

/** What our runs have and that API has no words for. */
function ownFacts({ runId, status, costMicrocents, steps }: AnsweredRun, { agent, thread }: RunRequestInput) {
  const costUsd = costMicrocents / microcentsPerUsd;
  return { run_id: runId, status, agent, thread, steps, cost_usd: costUsd, cost_microcents: costMicrocents };
}

/** `POST /v1/chat/completions`. */
export function chatCompletionOf(run: AnsweredRun, request: RunRequestInput) {
  const { runId, result, usage } = run;
  const message = { role: 'assistant', content: result?.text ?? '', refusal: null, annotations: [] };
  return {
    id: chatIdOf(runId),
    object: 'chat.completion',
    created: secondsOf(run.createdAt),
    model: modelOf(request),
    choices: [{ index: 0, message, logprobs: null, finish_reason: finishReasonOf(run) }],
    usage: chatUsageOf(usage),
    metadata: request.metadata,
    millrace: ownFacts(run, request),
  };
}

/** The reason in the words of `chat.completions`. An answer that a limit cut short is as one that ran out of tokens. */
export function finishReasonOf({ result }: Pick<AnsweredRun, 'result'>): 'stop' | 'length' | 'content_filter' {
  if (result?.incomplete || result?.finishReason === 'length') return 'length';
  return result?.finishReason === 'content_filter' ? 'content_filter' : 'stop';
}

export function chatUsageOf(usage: RunUsage | undefined): object | undefined {
  if (!usage) return undefined;
  const prompt = grossInput(usage);
  return {
    prompt_tokens: prompt,
    completion_tokens: usage.output,
    total_tokens: prompt + usage.output,
    prompt_tokens_details: { cached_tokens: usage.cached },
  };
}

/** `POST /v1/responses`, and the same run read again, whatever it was asked for with. */
export function responseOf(run: AnsweredRun, request: RunRequestInput) {
  const { runId, status, result } = run;
  const answer = result?.text ?? '';
  const output =
    isTerminalStatus(status) && result ? [messageItem(messageIdOf(runId, run.steps), answer, 'completed')] : [];
  const state = responseStatusOf(run);
  return {
    ...frameOf(run, request),
    status: state,
    completed_at: state === 'completed' && run.endedAt !== undefined ? secondsOf(run.endedAt) : null,
    error: state === 'failed' && run.error ? { code: run.error.code, message: run.error.message } : null,
    incomplete_details: state === 'incomplete' ? { reason: incompleteReasonOf(run) } : null,
    output,
    output_text: answer,
    usage: responseUsageOf(run.usage),
    millrace: ownFacts(run, request),
  };
}

/** What a response repeats of its request. */
function frameOf({ runId, createdAt }: Pick<AnsweredRun, 'runId' | 'createdAt'>, request: RunRequestInput) {
  const { wire, instructions, metadata, overrides, limits, outputSchema, store } = request;
  const format = outputSchema ? { type: 'json_schema', name: 'output', schema: outputSchema } : { type: 'text' };
  return {
    id: responseIdOf(runId),
    object: 'response',
    created_at: secondsOf(createdAt),
    model: modelOf(request),
    background: wire?.background ?? false,
    store: store ?? true,
    instructions: instructions ?? null,
    metadata: metadata ?? {},
    max_output_tokens: overrides?.maxOutputTokens ?? null,
    max_tool_calls: limits?.maxToolCalls ?? null,
    previous_response_id: wire?.previous === undefined ? null : responseIdOf(wire.previous),
    conversation: wire?.conversation === undefined ? null : { id: wire.conversation },
    text: { format },
    // Their clients expect the fields; the agent decides them.
    parallel_tool_calls: true,
    tool_choice: 'auto',
    tools: [],
    temperature: null,
    top_p: null,
    truncation: 'disabled',
  };
}

/** Of a run that was not asked for through this API: its agent. */
export function modelOf({ wire, agent, agentVersion }: RunRequestInput): string {
  return wire?.model ?? (agentVersion === undefined ? agent : `${agent}@${agentVersion}`);
}

type ItemStatus = 'in_progress' | 'completed' | 'incomplete';

export function messageItem(id: string, text: string, status: ItemStatus): object {
  return {
    id,
    type: 'message',
    role: 'assistant',
    status,
    content: status === 'in_progress' ? [] : [textPart(text)],
  };
}

export function textPart(text: string): object {
  return { type: 'output_text', text, annotations: [], logprobs: [] };
}

type ResponseStatus = 'queued' | 'in_progress' | 'completed' | 'failed' | 'incomplete' | 'cancelled';

function responseStatusOf({ status, result }: AnsweredRun): ResponseStatus {
  switch (status) {
    case 'queued':
    case 'failed':
    case 'cancelled':
      return status;
    case 'running':
    case 'suspended':
      return 'in_progress';
    case 'completed':
    case 'degraded':
    case 'blocked':
      return finishReasonOf({ result }) === 'stop' ? 'completed' : 'incomplete';
    default:
      return assertNever(status satisfies RunStatus);
  }
}

/** In the words of that API where it has one: a limit of ours has our name. */
function incompleteReasonOf({ result }: AnsweredRun): string {
  if (result?.finishReason === 'content_filter') return 'content_filter';
  return result?.incomplete?.reason ?? 'max_output_tokens';
}

function responseUsageOf(usage: RunUsage | undefined): object | null {
  if (!usage) return null;
  const input = grossInput(usage);
  return {
    input_tokens: input,
    input_tokens_details: { cached_tokens: usage.cached },
    output_tokens: usage.output,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: input + usage.output,
  };
}
