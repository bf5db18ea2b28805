import { longestTimerMs, systemClock, type Clock } from '../../../shared/base/clock.ts';
import { z } from 'zod';
import { finishReason } from '../../../shared/contract/event.ts';
import { jsonText } from '../../../shared/base/json.ts';
import type { Usage } from '../../../shared/contract/money.ts';
import { AnswerBuilder } from '../answer-builder.ts';
import { cancelledCall, LlmError, llmErrorKind, type LlmErrorKind, type LlmErrorOptions } from '../errors.ts';
import { allInputKinds, type LlmAnswer, type LlmPart, type LlmProvider, type LlmRequest } from '../provider.ts';
import { filesOfRequest, fileTokensOf } from '../input-files.ts';
import type { InputFile } from '../../../shared/contract/input-parts.ts';
import type { ToolMessage } from '../../../shared/contract/message.ts';

const scriptedCall = z.strictObject({ name: z.string().min(1), args: z.unknown().optional() });

/** An answer as a file gives it. */
export const fileAnswer = z.strictObject({
  reasoning: z.string().optional(),
  text: z.string().optional(),
  /** Arguments that are a string are sent as they are, also when they are not JSON. */
  toolCalls: z.array(scriptedCall).max(1_000).optional(),
  /** Milliseconds before every part. */
  deltaMs: z.int().min(0).max(60_000).optional(),
  finishReason: finishReason.optional(),
  error: z
    .strictObject({
      kind: llmErrorKind.exclude(['cancelled']),
      message: z.string().optional(),
      status: z.int().optional(),
      retryAfterMs: z.int().min(0).optional(),
    })
    .optional(),
});

/** An answer as a script gives it. With `error` the call fails, after the parts that are given have been sent. */
export interface ScriptedAnswer extends Readonly<Omit<z.infer<typeof fileAnswer>, 'text' | 'toolCalls' | 'error'>> {
  /** A text is sent word by word, a list in these pieces. */
  readonly text?: string | readonly string[] | undefined;
  /** Milliseconds before the first part. */
  readonly afterMs?: number | undefined;
  /** Nothing comes after the parts, not even the end: until the call is cancelled, or too late. */
  readonly hangs?: boolean | undefined;
  readonly toolCalls?: readonly (z.infer<typeof scriptedCall> & { readonly id?: string | undefined })[] | undefined;
  /** Estimated from the lengths when absent. */
  readonly usage?: Usage | undefined;
  readonly error?:
    | (LlmErrorOptions & { readonly kind: LlmErrorKind; readonly message?: string | undefined })
    | undefined;
}

/** Decides what the model answers. Deterministic scripts depend on the request alone. */
export type ModelScript = (request: LlmRequest, signal: AbortSignal) => ScriptedAnswer | Promise<ScriptedAnswer>;

export interface ScriptedOptions {
  readonly id?: string;
  readonly clock?: Clock;
}

const charsPerToken = 4;

/** A provider that answers by a script, word by word, without any network. */
export function createScriptedProvider(
  script: ModelScript,
  { id = 'scripted', clock = systemClock }: ScriptedOptions = {},
): LlmProvider {
  return {
    id,
    capabilities: { tools: true, reasoning: true, fileUrls: true },
    inputOf: () => allInputKinds,
    // Nothing leaves the process.
    acceptsSensitivity: ['public', 'internal', 'secret'],
    async generate(request, onPart, signal) {
      if (signal.aborted) throw cancelledCall(id, signal);
      const answer = withinLimit(await script(request, signal), request);
      return await play(answer, request, onPart, signal, { id, clock });
    },
  };
}

/** What the caller lets a model say, as real models keep to it. The usage that a script reports stands for itself. */
function withinLimit(answer: ScriptedAnswer, { maxOutputTokens }: LlmRequest): ScriptedAnswer {
  if (maxOutputTokens === undefined || answer.usage || outputCharsOf(answer) <= maxOutputTokens * charsPerToken)
    return answer;
  let left = maxOutputTokens * charsPerToken;
  const take = (text: string) => {
    const kept = text.slice(0, left).toWellFormed();
    left -= kept.length;
    return kept;
  };
  const reasoning = take(answer.reasoning ?? '');
  const text = piecesOf(answer.text).map(take);
  const toolCalls = (answer.toolCalls ?? []).flatMap((call) => {
    left -= call.name.length;
    return left > 0 ? [{ ...call, args: take(argsText(call.args)) }] : [];
  });
  return { ...answer, reasoning, text: text.filter(Boolean), toolCalls, finishReason: 'length' };
}

async function play(
  answer: ScriptedAnswer,
  request: LlmRequest,
  onPart: (part: LlmPart) => void,
  signal: AbortSignal,
  { id, clock }: Required<ScriptedOptions>,
): Promise<LlmAnswer> {
  const builder = new AnswerBuilder(id, onPart);
  const pause = async (ms = 0) => {
    if (ms > 0) await clock.sleep(ms, signal).catch(() => {});
    if (signal.aborted) throw cancelledCall(id, signal);
  };
  await pause(answer.afterMs);
  for (const send of partsOf(answer, request, builder)) {
    await pause(answer.deltaMs);
    send();
  }
  while (answer.hangs) await pause(longestTimerMs);
  if (signal.aborted) throw cancelledCall(id, signal);
  const { error } = answer;
  if (error) throw new LlmError(error.kind, id, error.message ?? `the script answers ${error.kind}`, error);
  const usage = answer.usage ?? estimate(request, answer);
  return builder.finish({
    finishReason: answer.finishReason ?? (answer.toolCalls?.length ? 'tool_use' : 'stop'),
    usage,
  });
}

function* partsOf(answer: ScriptedAnswer, request: LlmRequest, builder: AnswerBuilder): Generator<() => void> {
  for (const word of words(answer.reasoning ?? '')) yield () => builder.add('reasoning', word);
  for (const piece of piecesOf(answer.text)) yield () => builder.add('text', piece);
  // Ids differ from step to step, as those of good providers do.
  const step = request.messages.filter((message) => message.role === 'assistant').length + 1;
  for (const [index, call] of (answer.toolCalls ?? []).entries()) {
    let id = '';
    yield () => (id = builder.startCall(call.id ?? `call_${step}_${index + 1}`, call.name));
    yield () => builder.callArgs(id, argsText(call.args));
  }
}

function piecesOf(text: ScriptedAnswer['text'] = ''): readonly string[] {
  return typeof text === 'string' ? words(text) : text;
}

function words(text: string): readonly string[] {
  return text.match(/\s*\S+|\s+/g) ?? [];
}

function argsText(args: unknown): string {
  return typeof args === 'string' ? args : jsonText(args ?? {});
}

function estimate(request: LlmRequest, answer: ScriptedAnswer): Usage {
  const files = filesOfRequest(request).reduce((sum, file) => sum + fileTokensOf(file), 0);
  const input = files + tokens(request.messages.reduce((sum, message) => sum + lengthOf(message), 0));
  const output = tokens(outputCharsOf(answer));
  return { input, output, cached: 0, cacheWrite: 0, total: input + output };
}

function outputCharsOf({ reasoning = '', text, toolCalls = [] }: ScriptedAnswer): number {
  const calls = toolCalls.reduce((sum, call) => sum + call.name.length + argsText(call.args).length, 0);
  return reasoning.length + piecesOf(text).join('').length + calls;
}

function lengthOf(message: LlmRequest['messages'][number]): number {
  if (message.role !== 'assistant') return message.content.length;
  return message.parts.reduce(
    (sum, part) => sum + (part.type === 'tool_call' ? part.name.length + part.args.length : part.text.length),
    0,
  );
}

function tokens(chars: number): number {
  return Math.ceil(chars / charsPerToken);
}

/** What happened since the user spoke last: all that a script looks at. */
export interface TurnSoFar {
  readonly input: string;
  /** Images and PDFs that came with it. The texts of other files stand in the input. */
  readonly files: readonly InputFile[];
  readonly results: readonly ToolMessage[];
}

export function turnOf(request: LlmRequest): TurnSoFar {
  const start = request.messages.findLastIndex((message) => message.role === 'user');
  const message = request.messages[start];
  return {
    input: message?.role === 'user' ? message.content : '',
    files: (message?.role === 'user' && message.files) || [],
    results: request.messages.slice(start + 1).filter((message) => message.role === 'tool'),
  };
}
