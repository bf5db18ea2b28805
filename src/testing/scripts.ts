import { jsonText } from '../shared/base/json.ts';
import { clip } from '../shared/base/text.ts';
import { RunError } from '../shared/base/errors.ts';
import { textOf } from '../shared/contract/message.ts';
import { turnOf, type ModelScript, type ScriptedAnswer } from '../worker/llm/backends/scripted.ts';
import { LlmError, type LlmErrorKind, type LlmErrorOptions } from '../worker/llm/errors.ts';
import type { LlmRequest } from '../worker/llm/provider.ts';

/** One answer of a scripted model: a text, an answer with more than a text, or a function of the request. */
export type Answer = string | ScriptedAnswer | ModelScript;

/** What a scripted model goes by: answers one after the other, or a function that answers every request. */
export type Script = readonly Answer[] | ModelScript;

/**
 * An answer that calls one tool. Arguments that are a string are sent as they are, also when they are no JSON. For several calls
 * in one answer write `{ toolCalls: [{ name, args }, …] }`.
 *
 * @example
 * scriptedModel([calls('lookup_order', { order: '7' }), 'It was shipped.'])
 */
export function calls(name: string, args: unknown = {}): ScriptedAnswer {
  return { toolCalls: [{ name, args }] };
}

/** An answer whose text is this value as JSON: for agents with an `outputSchema`. */
export function saysJson(value: unknown): ScriptedAnswer {
  return { text: jsonText(value) };
}

/** What {@link fails} takes beside the kind. Times in milliseconds. */
export interface FailureOptions extends Pick<LlmErrorOptions, 'status' | 'retryAfterMs' | 'usage'> {
  /** Default: one that names the kind. */
  readonly message?: string;
  /** Sent before the failure, as a stream that breaks off does. */
  readonly text?: string;
}

/**
 * A call that fails. `auth`, `content_filter`, `bad_request` and `context_length` end at once, or at the next model of the agent;
 * `rate_limit`, `overloaded`, `timeout` and `transport` are retried as the agent's `retry` says; `unknown` is a defect.
 *
 * @example
 * scriptedModel([fails('rate_limit', { retryAfterMs: 2_000 }), 'It was shipped.'])
 */
export function fails(kind: Exclude<LlmErrorKind, 'cancelled'>, options: FailureOptions = {}): ScriptedAnswer {
  const { text, ...error } = options;
  return { text, error: { ...error, kind } };
}

/** A call that never ends by itself: it is cancelled, or the silence of the model becomes too long. */
export function hangs(text?: string): ScriptedAnswer {
  return { text, hangs: true };
}

/** Answers every request alike. */
export function always(answer: Answer): ModelScript {
  return (request, signal) => answered(answer, request, signal);
}

/** Calls a tool in each turn, and says `then` once it has the result. */
export function callsTool(name: string, args: unknown = {}, then = 'done'): ModelScript {
  return (request) => (turnOf(request).results.length > 0 ? { text: then } : calls(name, args));
}

/** How many answers are left of the scripts that know it. */
const counted = new WeakMap<ModelScript, () => number>();

/** How many answers of a script no request got. 0 for a function, which has an answer for every request. */
export function answersLeft(script: ModelScript): number {
  return counted.get(script)?.() ?? 0;
}

/** One answer after the other. A request too many fails with kind `unknown` and says what it was about: nothing is repeated. */
export function inOrder(answers: readonly Answer[]): ModelScript {
  let next = 0;
  const script: ModelScript = (request, signal) => {
    const answer = answers[next++];
    if (answer === undefined) throw new LlmError('unknown', 'scripted', noAnswerLeft(answers.length, request));
    return answered(answer, request, signal);
  };
  counted.set(script, () => Math.max(0, answers.length - next));
  return script;
}

/**
 * A script for each model: for agents with fallback models. A request for another model fails with kind `bad_request` and names
 * the models there are.
 *
 * @example
 * scriptedModel(byModel({ 'gpt-5.2': [fails('overloaded')], 'gpt-5.2-mini': ['It was shipped.'] }))
 */
export function byModel(scripts: Readonly<Record<string, Script>>): ModelScript {
  return chosenBy('model', ({ model }) => model, scripts);
}

/** The same for each agent, by its id: for agents that ask each other or hand over. Summaries are asked for in no agent's name. */
export function byAgent(scripts: Readonly<Record<string, Script>>): ModelScript {
  const nameIn = ({ metadata }: LlmRequest) => {
    const name = metadata?.['agent_name'];
    return typeof name === 'string' ? name : '';
  };
  return chosenBy('agent', nameIn, scripts);
}

function chosenBy(
  what: string,
  nameIn: (request: LlmRequest) => string,
  scripts: Readonly<Record<string, Script>>,
): ModelScript {
  const known = new Map(Object.entries(scripts).map(([name, script]) => [name, scriptOf(script)]));
  const script: ModelScript = (request, signal) => {
    const found = known.get(nameIn(request));
    if (found) return found(request, signal);
    const names = [...known.keys()].join(', ');
    const message = `there is no script for ${what} ${nameIn(request)}, only for ${names}`;
    throw new LlmError('bad_request', 'scripted', message);
  };
  counted.set(script, () => [...known.values()].reduce((sum, one) => sum + answersLeft(one), 0));
  return script;
}

/** The script as a function. Throws `validation` for anything that is none. */
export function scriptOf(script: Script): ModelScript {
  if (typeof script === 'function') return script;
  if (Array.isArray(script)) return inOrder(script);
  throw new RunError('validation', 'a script is a list of answers, or a function that answers a request');
}

async function answered(answer: Answer, request: LlmRequest, signal: AbortSignal): Promise<ScriptedAnswer> {
  if (typeof answer === 'string') return { text: answer };
  return typeof answer === 'function' ? await answer(request, signal) : answer;
}

const shownChars = 200;

function noAnswerLeft(count: number, request: LlmRequest): string {
  const had = count === 1 ? 'one answer' : `${count} answers`;
  return `the script has ${had}, and model ${request.model} is asked once more, after ${lastOf(request)}`;
}

/** The last message of a request, in words. */
export function lastOf({ messages }: LlmRequest): string {
  const last = messages.at(-1);
  if (!last) return 'nothing';
  const content = clip(last.role === 'assistant' ? textOf(last) : last.content, shownChars);
  return last.role === 'tool' ? `the result of ${last.toolName}: ${content}` : `the ${last.role} message: ${content}`;
}
