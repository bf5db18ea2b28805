import { RunError } from '../../shared/base/errors.ts';
import { defined } from '../../shared/base/collections.ts';
import type { Attempt, JournalEntry } from '../../shared/contract/journal/journal.ts';
import { cutText } from '../../shared/base/redact.ts';
import { toolCallsOf, type Message } from '../../shared/contract/message.ts';
import { zeroUsage } from '../../shared/contract/money.ts';
import type { ChainCall, ChainResult } from '../llm/fallback-chain.ts';
import type { ChainRequest } from '../llm/candidate.ts';
import { closingResultsBytes } from '../llm/cost.ts';
import { LlmError } from '../llm/errors.ts';
import type { LlmAnswer } from '../llm/provider.ts';
import { leakEvent } from '../tools/leak-event.ts';
import { runNotes } from '../prompt/run-notes.ts';
import { parseArgs, shownArgs } from '../tools/execute/args.ts';
import { chooseModel, noPreferences, type ModelChoice } from './choose-model.ts';
import { compactBefore, compactRefused, type ComingCall } from './compaction/compaction.ts';
import { attemptsMade, listen } from './listen.ts';
import { nextMove } from './next-move.ts';
import { askForPlan, type StepPlan } from './prepare-step.ts';
import { readBefore } from './read-before.ts';
import { buildRequest } from './request.ts';
import { keptAnswer, lastShown, protocolFault, protocolFinding, ShownText } from './shown-text.ts';
import { recordEntry, type Turn } from './turn-ports.ts';
import type { TurnState } from '../../shared/contract/journal/turn-state.ts';

/**
 * One model call. The answer is in the journal, together with the intents of the tools that will run next, when this
 * resolves. Throws when there is no answer that the turn can go on with; what was paid for it is recorded all the same.
 */
export async function callModel(turn: Turn): Promise<void> {
  const { spec, deps, signal, growing } = turn;
  const step = growing.state.step + 1;
  await askPolicy(turn, step);
  const plan = await askForPlan(turn, step);
  signal.throwIfAborted();
  if (spec.closingAnswer && deps.isCapped && !growing.state.holdsMoney) await recordEntry(turn, { t: 'closing_held' });
  const called = growing.state.calls.map(({ name }) => name);
  const choice = chooseModel(spec, spec.preferences ?? noPreferences, called, plan);
  const coming = { step, ...(choice.primary ?? { model: choice.model }) };
  await compactBefore(turn, coming);
  signal.throwIfAborted();
  const shown = beginStep(turn, step, choice);
  const asking = { turn, coming, choice, toolChoice: plan.toolChoice, shown, attempts: [] };
  const result = await ask(asking).catch(async (error: unknown) => {
    if (!isLostSession(error, growing.state)) throw error;
    await recordEntry(turn, { t: 'session_lost', step });
    return await ask(asking);
  });
  await accept(asking, result);
}

/** The closing call: without tools, compaction and waits. Throws when there is no answer; what was paid for it is recorded. */
export async function callClosing(turn: Turn): Promise<void> {
  const { spec, signal, growing } = turn;
  const step = growing.state.step + 1;
  signal.throwIfAborted();
  await askPolicy(turn, step);
  const plan = await askForPlan(turn, step);
  signal.throwIfAborted();
  const choice = chooseModel(spec, spec.preferences ?? noPreferences, [], plan);
  const shown = beginStep(turn, step, choice);
  const coming = { step, ...(choice.primary ?? { model: choice.model }) };
  const asking: Asking = { turn, coming, choice, toolChoice: 'none', shown, attempts: [], closing: 'whole' };
  const result = await ask(asking).catch(async (error: unknown) => {
    // Refused, and not sent: the money that is held pays for less.
    if (!(error instanceof RunError && error.code === 'budget_exceeded')) throw error;
    return await ask({ ...asking, closing: 'short' });
  });
  await accept(asking, result);
}

function beginStep(turn: Turn, stepNumber: number, choice: ModelChoice): ShownText {
  const { deps, growing } = turn;
  const shown = new ShownText(turn, deps.tools.advertised(growing.state.promoted).length > 0);
  const { model, source: modelSource, reason: modelReason } = choice;
  deps.emit(defined({ type: 'step.start', stepNumber, model, modelSource, modelReason }));
  return shown;
}

/** A provider that does not know its own session any more says that the request is wrong: the whole conversation is right. */
function isLostSession(error: unknown, { serving, sessionToken, checkpointToken }: TurnState): boolean {
  const isOwn = error instanceof LlmError && error.kind === 'bad_request' && error.provider === serving?.provider;
  return isOwn && (sessionToken !== undefined || checkpointToken !== undefined);
}

/** Throws `policy_denied` with the reason when the model must not be called. */
export async function askPolicy({ deps, growing }: Turn, step: number): Promise<void> {
  const verdict = await deps.callPolicy?.(step, growing.state);
  if (!verdict) return;
  const { action, ruleId } = verdict;
  const about = defined({ type: 'policy.decision', subject: 'llm_call', action, ruleId });
  if (verdict.action === 'allow') {
    if (ruleId !== undefined) deps.emit(about);
    return;
  }
  deps.emit({ ...about, reason: verdict.reason });
  throw new RunError('policy_denied', verdict.reason);
}

interface Asking {
  readonly turn: Turn;
  /** It is the closing call; `short`: without the length of what the last tools answered. */
  readonly closing?: 'whole' | 'short';
  readonly coming: ComingCall;
  readonly choice: ModelChoice;
  readonly toolChoice: StepPlan['toolChoice'];
  readonly shown: ShownText;
  /** That the journal does not hold yet. */
  readonly attempts: Attempt[];
}

async function ask({ turn, coming, choice, toolChoice, shown, attempts, closing }: Asking): Promise<ChainResult> {
  const { spec, deps, signal, growing } = turn;
  const { step } = coming;
  const requestNow = () => {
    const { state } = growing;
    const built = buildRequest(
      spec,
      state,
      deps.tools.advertised(state.promoted, state.loop.withdrawn),
      deps.requestId(step),
    );
    const chosen = toolChoice !== undefined && built.tools ? { ...built, toolChoice } : built;
    return closing ? closingRequest(chosen, closing, spec.locale) : chosen;
  };
  const request = requestNow();
  const recordAttempts = async () => {
    if (attempts.length > 0) await recordEntry(turn, { t: 'attempted', step, attempts: attempts.splice(0) });
  };
  const { primary, only } = choice;
  const shorten = async () => {
    // In the journal before the summary is paid: what is numbered and paid later comes after it.
    await recordAttempts();
    const request = (await compactRefused(turn, coming)) ? requestNow() : undefined;
    return { request, attemptNumber: attemptsMade(turn) + 1 };
  };
  const call: ChainCall = {
    ...listen(turn, step, attempts, shown),
    admit: admissionOf(turn, closing),
    primary,
    only,
    ...(deps.compaction && !closing && { shorten }),
  };
  try {
    const result = await deps.chain.run(request, call, signal);
    signal.throwIfAborted();
    for (const { id, name } of result.answer.incompleteToolCalls) {
      deps.emit({ type: 'tool.call.incomplete', toolCallId: id, toolName: name });
    }
    const { answer } = result;
    const called = closing && callIn(answer);
    const fault = faultIn(answer) ?? deniedIn(answer, turn) ?? protocolFault(answer.message, turn) ?? called;
    if (fault) throw fault;
    return result;
  } catch (error) {
    await recordAttempts();
    throw error;
  }
}

/** Money for the closing call is held with every other one. */
function admissionOf({ spec, deps: { admit } }: Turn, closing: Asking['closing']): ChainCall['admit'] {
  if (!admit || (!closing && spec.closingAnswer !== true)) return admit;
  // Nothing waits for its sake: the run is at its limit.
  const about = closing ? ({ closing: 'takes', optional: true } as const) : ({ closing: 'holds' } as const);
  return (planned, signal) => admit({ ...planned, ...about }, signal);
}

/** The same request with the question for an answer behind it. What came before it stays as it is, the tools as well. */
function closingRequest(request: ChainRequest, closing: 'whole' | 'short', locale = 'en'): ChainRequest {
  const messages = closing === 'short' ? withShortResults(request.messages) : request.messages;
  return { ...request, messages: [...messages, { role: 'user', content: runNotes(locale).closing }] };
}

/** With as much of what the last tools answered as money was held for. */
function withShortResults(messages: readonly Message[]): Message[] {
  const last = messages.findLastIndex(({ role }) => role === 'assistant');
  const count = messages.slice(last + 1).filter(({ role }) => role === 'tool').length;
  const bytes = Math.floor(closingResultsBytes / Math.max(1, count));
  return messages.map((message, index) =>
    message.role === 'tool' && index > last ? { ...message, content: cutText(message.content, bytes) } : message,
  );
}

/** A model that calls a tool in place of its last words gives no answer. */
function callIn({ message }: LlmAnswer): RunError | undefined {
  if (toolCallsOf(message).length === 0) return undefined;
  return new RunError('provider_unavailable', 'the model called a tool in place of its closing answer');
}

/** Why a whole answer is still none. Tool calls decide what happens next; the finish reason only where it is a refusal. */
function faultIn({ message, finishReason, incompleteToolCalls }: LlmAnswer): RunError | undefined {
  if (finishReason === 'content_filter') return new RunError('content_filter', 'the provider refused the content');
  if (incompleteToolCalls.length > 0) {
    const names = incompleteToolCalls.map((call) => call.name).join(', ');
    return new RunError('incomplete_tool_call', `the model was cut off while it wrote a call of ${names}`);
  }
  if (finishReason === 'error')
    return new RunError('provider_unavailable', 'the provider ended its answer with an error');
  if (finishReason === 'tool_use' && toolCallsOf(message).length === 0) {
    const text = 'the provider stopped for tools and called none';
    return new RunError('provider_unavailable', text, { retryable: false });
  }
  return undefined;
}

/** The model of a node may call no tool of its agent that the node leaves out. */
function deniedIn({ message }: LlmAnswer, { spec: { deniedTools = [] }, deps }: Turn): RunError | undefined {
  const call = toolCallsOf(message).find(({ name }) => deniedTools.includes(name));
  if (!call) return undefined;
  const { id: toolCallId, name: toolName } = call;
  const ruleId = 'not_granted';
  const reason = `the model called ${toolName}, which is not granted here`;
  deps.emit({ type: 'policy.decision', subject: 'tool_call', action: 'deny', ruleId, reason, toolCallId, toolName });
  return new RunError('tool_denied', reason, { details: { toolName, reason: ruleId } });
}

async function accept({ turn, coming: { step }, shown, attempts }: Asking, { answer, provider, model }: ChainResult) {
  const { spec, deps, growing } = turn;
  const { finishReason, usage = zeroUsage, sessionToken, checkpointToken } = answer;
  const message = keptAnswer(answer.message, spec);
  // Whose tools the calls mean, as far as any is a server's.
  const sources = toolCallsOf(message).map(({ name }) => deps.tools.sourceOf(name) ?? null);
  const answered: JournalEntry = {
    v: 1,
    t: 'model_response',
    step,
    message,
    finishReason,
    usage,
    attempts: [...attempts],
    provider,
    model,
    sessionToken,
    checkpointToken,
    sources: sources.some((source) => source !== null) ? sources : undefined,
  };
  growing.add(answered);
  const { calls } = growing.state;
  shown.end(message);
  const text = lastShown(growing.state, spec);
  const leak = protocolFinding(answer.message, spec);
  if (leak) deps.emit(leakEvent(leak));
  if (text !== '') deps.emit({ type: 'text.complete', text });
  for (const call of calls) {
    const parsed = parseArgs(call.args);
    const finalArgs = parsed.kind === 'parsed' ? shownArgs(parsed.value, deps.redactor) : { truncated: parsed.reason };
    deps.emit({ type: 'tool.call.end', toolCallId: call.id, finalArgs });
  }
  if (calls.length === 0) deps.emit({ type: 'step.end', stepNumber: step, usage, finishReason });
  turn.inCalls = nextMove(growing.state, spec.limits, spec).kind === 'run_tools' && !deps.suspect?.calls;
  await deps.record([answered, ...intents(turn)], turn.inCalls ? 'calls' : undefined);
}

/**
 * The intent of the calls with a side effect, if they will run now. It goes with the answer to save a write; where the
 * turn may still stop or wait before them it is left out, because an intent without a result puts a call in doubt.
 */
function intents({ inCalls, spec, deps, growing }: Turn): JournalEntry[] {
  const { state } = growing;
  if (!inCalls || deps.stopRequested?.() === 'hand_over') return [];
  const { calls, loop, unknownCalls } = state;
  // One that is the same as a call in doubt waits for a person.
  if (unknownCalls.length > 0) return [];
  const acting = deps.tools.startingFreely({ calls, past: readBefore(spec, state), withdrawn: loop.withdrawn });
  if (acting.length === 0) return [];
  const at = new Date(deps.clock.now()).toISOString();
  const indexes = acting.map((call) => call.index);
  const calling: JournalEntry = { v: 1, t: 'tool_intent', step: state.step, indexes, at };
  growing.add(calling);
  return [calling];
}
