import { toolErrorHints, type ToolErrorKind, RunError } from '../../shared/base/errors.ts';
import type { IncompleteReason } from '../../shared/contract/event.ts';
import { hasOpenCalls, type TurnState } from '../../shared/contract/journal/fold.ts';
import { journalVersion, type JournalEntry } from '../../shared/contract/journal/journal.ts';
import type { StepCall } from '../../shared/contract/journal/turn-state.ts';
import { errorResult } from '../tools/tool-error.ts';
import { callClosing } from './model-step.ts';
import { limitReached } from './next-move.ts';
import { readOutput } from './output.ts';
import type { Turn, TurnOutcome } from './turn-ports.ts';

type Failed = Extract<TurnOutcome, { status: 'failed' }>;

/** The limit that ended a turn for which a closing answer may be asked; undefined where another thing did. */
export function landingReason(
  { spec, deps, growing: { state } }: Turn,
  { code }: RunError,
): IncompleteReason | undefined {
  // Without a step there is nothing to answer with.
  if (spec.closingAnswer !== true || deps.media || state.step === 0 || state.closing) return undefined;
  switch (code) {
    case 'budget_exceeded':
      return 'budget';
    case 'run_timeout':
      return 'wallTimeMs';
    case 'deadline_exceeded':
      return 'deadlineMs';
    case 'turn_limit':
      return limitReached(state, spec.limits);
    default:
      return undefined;
  }
}

/**
 * Makes one last call, without tools, of what the turn has found out. It is in the journal before it is sent, so no worker sends
 * it twice. Whatever goes wrong with it, the turn has failed at its limit.
 */
export async function land(turn: Turn, reason: IncompleteReason, failed: Failed): Promise<TurnOutcome> {
  const { deps, growing, signal } = turn;
  const { error } = failed;
  const { step } = growing.state;
  try {
    const { code, message } = error;
    const entries = [
      ...unansweredCalls(turn),
      { v: journalVersion, t: 'closing', step, reason, error: { code, message } } satisfies JournalEntry,
    ];
    for (const entry of entries) growing.add(entry);
    await deps.record(entries, 'idle');
    await callClosing(turn);
  } catch (thrown) {
    if (thrown instanceof RunError && (thrown.code === 'lock_lost' || thrown.code === 'queue_unavailable'))
      return { ...failed, error: thrown };
    const { reason: why } = signal;
    if (signal.aborted && !(why instanceof RunError && why.code !== 'cancelled'))
      return { status: 'cancelled', partialText: turn.shownText, state: growing.state };
    return failed;
  }
  return closedTurn(turn) ?? failed;
}

/** How a turn ends whose closing call was begun, by its journal. A call without an answer may have been paid: it is not made again. */
export function afterClosing(turn: Turn): TurnOutcome {
  const { state } = turn.growing;
  const { code, message } = state.closing?.error ?? { code: 'internal', message: 'there is no closing call' };
  const error = new RunError(code, message);
  return closedTurn(turn) ?? { status: 'failed', error, engaged: true, partialText: '', state };
}

/** The answer of the closing call; undefined where there is none of the shape that is asked for. */
function closedTurn({ spec, growing: { state } }: Turn): TurnOutcome | undefined {
  const { closing, answer } = state;
  if (!closing?.isAnswered || !answer || answer.text === '') return undefined;
  const { text, finishReason } = answer;
  const incomplete = { reason: closing.reason };
  const end = {
    status: 'completed',
    text,
    finishReason,
    emptyResponse: false,
    degraded: false,
    incomplete,
    state,
  } as const;
  if (!spec.outputSchema) return end;
  const output = readOutput(text, spec.outputSchema, spec.outputValidation);
  return output.kind === 'valid' ? { ...end, structured: output.value } : undefined;
}

/** Every call of the conversation needs a result: those that have none get one that says so. */
function unansweredCalls({ deps, growing: { state } }: Turn): JournalEntry[] {
  if (!hasOpenCalls(state)) return [];
  const open = state.calls.filter(({ status }) => status !== 'tool_result');
  const entries = open.map((call) => unanswered(call, state, (event) => deps.emit(event)));
  if (state.answer) {
    const { usage, finishReason } = state.answer;
    deps.emit({ type: 'step.end', stepNumber: state.step, usage, finishReason });
  }
  return entries;
}

function unanswered(
  { index, id: toolCallId, name: toolName, status }: StepCall,
  { step }: TurnState,
  emit: Turn['deps']['emit'],
): JournalEntry {
  const begun = status === 'tool_intent' || status === 'interrupted';
  const kind: ToolErrorKind = begun ? 'outcome_unknown' : 'aborted';
  const message = begun
    ? 'the run reached a limit before it was known whether this took effect'
    : 'the run reached a limit';
  emit({
    type: 'tool.execute.error',
    toolCallId,
    toolName,
    success: false,
    durationMs: 0,
    error: { kind, message, hint: toolErrorHints[kind] },
  });
  const { content } = errorResult({ kind, message }, toolName);
  return { v: journalVersion, t: 'tool_result', step, index, toolCallId, toolName, content, errorKind: kind };
}
