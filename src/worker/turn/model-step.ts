import { RunError } from '../../shared/errors.ts';
import type { Attempt, JournalEntry, JournalEntryOf } from '../../shared/journal.ts';
import { toolCallsOf } from '../../shared/message.ts';
import { zeroUsage } from '../../shared/money.ts';
import type { ChainResult } from '../llm/fallback-chain.ts';
import type { LlmAnswer } from '../llm/provider.ts';
import { parseArgs, shownArgs } from '../tools/args.ts';
import { listen } from './listen.ts';
import { nextMove } from './next-move.ts';
import { buildRequest } from './request.ts';
import type { Turn } from './contract.ts';

/**
 * One model call. The answer is in the journal, together with the intents of the tools that will run next, when this
 * resolves. Throws when there is no answer that the turn can go on with; what was paid for it is recorded all the same.
 */
export async function callModel(turn: Turn): Promise<void> {
  const { spec, deps, signal, growing } = turn;
  const step = growing.state.step + 1;
  await deps.preEgress?.(step, signal);
  signal.throwIfAborted();
  turn.shownText = '';
  deps.emit({ type: 'step.start', stepNumber: step, model: spec.model, modelSource: spec.modelSource });
  const attempts: Attempt[] = [];
  const result = await ask(turn, step, attempts);
  await accept(turn, step, attempts, result);
}

async function ask(turn: Turn, step: number, attempts: Attempt[]): Promise<ChainResult> {
  const { spec, deps, signal, growing } = turn;
  const request = buildRequest(spec, growing.state, deps.tools.advertised(), deps.requestId(step));
  try {
    const result = await deps.chain.run(request, listen(turn, step, attempts), signal);
    signal.throwIfAborted();
    for (const { id, name } of result.answer.incompleteToolCalls) {
      deps.emit({ type: 'tool.call.incomplete', toolCallId: id, toolName: name });
    }
    const fault = faultIn(result.answer);
    if (fault) throw fault;
    return result;
  } catch (error) {
    if (attempts.length > 0) {
      const entry: JournalEntry = { v: 1, t: 'attempted', step, attempts };
      growing.add(entry);
      await deps.record([entry]);
    }
    throw error;
  }
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

async function accept(turn: Turn, step: number, attempts: readonly Attempt[], result: ChainResult): Promise<void> {
  const { deps, growing } = turn;
  const { answer, provider, model } = result;
  const { message, finishReason, usage = zeroUsage, sessionToken, checkpointToken } = answer;
  const answered: JournalEntryOf<'answered'> = {
    v: 1,
    t: 'answered',
    step,
    message,
    finishReason,
    usage,
    attempts: [...attempts],
    provider,
    model,
    ...(sessionToken !== undefined && { sessionToken }),
    ...(checkpointToken !== undefined && { checkpointToken }),
  };
  growing.add(answered);
  const { calls } = growing.state;
  const text = growing.state.answer?.text ?? '';
  if (text !== '') deps.emit({ type: 'text.complete', text });
  for (const call of calls) {
    const parsed = parseArgs(call.args);
    const finalArgs = parsed.kind === 'parsed' ? shownArgs(parsed.value, deps.redactor) : {};
    deps.emit({ type: 'tool.call.end', toolCallId: call.id, finalArgs });
  }
  if (calls.length === 0) deps.emit({ type: 'step.end', stepNumber: step, usage, finishReason });
  await deps.record([answered, ...intents(turn)]);
}

/**
 * The intent of the calls with a side effect, if they will run now. It goes with the answer to save a write; where the
 * turn may still stop before them it is left out, because an intent without a result puts a call in doubt.
 */
function intents({ spec, deps, growing }: Turn): JournalEntry[] {
  const { state } = growing;
  if (nextMove(state, spec.limits, spec.toolFailure).kind !== 'run_tools') return [];
  const acting = state.calls.filter(({ name }) => (deps.tools.effectOf(name) ?? 'read') !== 'read');
  if (acting.length === 0 || deps.stopRequested?.() === 'hand_over') return [];
  const calling: JournalEntry = { v: 1, t: 'calling', step: state.step, indexes: acting.map((call) => call.index) };
  growing.add(calling);
  return [calling];
}
