import type { Limits } from '../../shared/contract/agent/agent.ts';
import { RunError, type ToolErrorKind } from '../../shared/base/errors.ts';
import { loopMove, type LoopMove, type LoopRules } from './loop-move.ts';
import { problemToRepair, type OutputRule } from './output.ts';
import type { StepCall } from '../../shared/contract/journal/turn-state.ts';
import { hasOpenCalls, type TurnState } from '../../shared/contract/journal/fold.ts';

/** What a failed tool, or a failed agent, does to the run: its error goes to the model, the run fails, or it ends with what it has. */
export type CallFailure = 'feed_back' | 'fail' | 'degrade';

/** The loop's decision. A pure function of the state, so every worker that reads the journal decides alike. */
export type Move =
  | { readonly kind: 'call_model' }
  | { readonly kind: 'run_tools' }
  | { readonly kind: 'complete' }
  /** Another agent goes on. */
  | { readonly kind: 'hand_off'; readonly to: string }
  | { readonly kind: 'repair'; readonly problem: string }
  | { readonly kind: 'degrade'; readonly text: string }
  | LoopMove
  | { readonly kind: 'fail'; readonly error: RunError };

/** What the agent says about failures of the calls of a step, and about its final answer. */
export interface MoveRules extends OutputRule {
  readonly toolFailure: CallFailure;
  readonly subagentFailure: CallFailure;
  /** Absent: runs may go in circles. */
  readonly loop?: LoopRules | undefined;
}

export function nextMove(state: TurnState, limits: Limits, rules: MoveRules): Move {
  const { counters, calls, answer } = state;
  if (state.finished) return fail(new RunError('internal', 'the turn is already over'));
  if (answer && calls.length === 0 && !state.repairing) {
    const mayRepair = state.repairs < (rules.outputRepairAttempts ?? 0) && counters.llmCalls < limits.maxLlmCalls;
    const problem = mayRepair ? problemToRepair(answer.text, rules) : undefined;
    return problem === undefined ? { kind: 'complete' } : { kind: 'repair', problem };
  }
  if (hasOpenCalls(state)) {
    const reached = limitReached(state, limits);
    return reached ? fail(tooMany(reached, limits)) : { kind: 'run_tools' };
  }
  const ended = endedByCall(state, rules);
  if (ended) return ended;
  const to = calls.find(({ result }) => result?.handoff)?.result?.handoff;
  if (to !== undefined) return { kind: 'hand_off', to };
  if (counters.corrections > limits.maxCorrections) return fail(tooManyMistakes(state, limits));
  if (state.budgetDecision === 'reject')
    return fail(new RunError('budget_exceeded', 'more money for the run was refused'));
  const loop = rules.loop && loopMove(state, rules.loop);
  if (loop) return loop;
  const reached = limitReached(state, limits);
  return reached ? fail(tooMany(reached, limits)) : { kind: 'call_model' };
}

/** Names the tool and the kind of the last mistake, never its arguments: they may hold anything. */
function tooManyMistakes({ calls, counters: { corrections } }: TurnState, { maxCorrections }: Limits): RunError {
  const last = calls.findLast(({ result }) => result?.correctable);
  const mistake = last ? `a call of ${last.name} (${last.result?.errorKind ?? 'unknown'})` : 'a tool call';
  const times = corrections === 1 ? '' : ` in ${corrections} steps, last`;
  const allowed =
    maxCorrections === 0 ? 'no correction' : maxCorrections === 1 ? 'one correction' : `${maxCorrections} corrections`;
  const message = `the model made a mistake${times} in ${mistake}; limits.maxCorrections allows ${allowed}`;
  return new RunError('tool_failed', message, { retryable: false });
}

type CallLimit = 'maxSteps' | 'maxToolCalls' | 'maxLlmCalls';

/** The limit that keeps the calls of the step from being made, or the next model call. */
export function limitReached(state: TurnState, limits: Limits): CallLimit | undefined {
  const { llmCalls, toolCalls, toolSteps } = state.counters;
  if (!hasOpenCalls(state)) return llmCalls >= limits.maxLlmCalls ? 'maxLlmCalls' : undefined;
  if (toolSteps > limits.maxSteps) return 'maxSteps';
  return toolCalls > limits.maxToolCalls ? 'maxToolCalls' : undefined;
}

const counted = { maxSteps: 'round of tool calls', maxToolCalls: 'tool call', maxLlmCalls: 'model call' } as const;
const several = { maxSteps: 'rounds of tool calls', maxToolCalls: 'tool calls', maxLlmCalls: 'model calls' } as const;

/** Kinds that mean that the tool itself did not work. Mistakes of the model and refusals always go back to it. */
const toolFaults: ReadonlySet<ToolErrorKind> = new Set<ToolErrorKind>([
  'execution_failed',
  'timeout',
  'invalid_output',
  'rate_limited',
  'sandbox_violation',
  'tool_unavailable',
  'sandbox_unavailable',
]);

/** Places of the calls of the last step whose tool, or whose agent, did not work. */
export function failedCalls({ calls }: TurnState): number[] {
  return calls.filter(hasFailed).map(({ index }) => index);
}

function hasFailed({ result }: StepCall): boolean {
  return result?.errorKind !== undefined && !result.correctable && toolFaults.has(result.errorKind);
}

/** The first failed call whose policy is not that the model gets it. */
function endedByCall({ calls }: TurnState, { toolFailure, subagentFailure }: MoveRules): Move | undefined {
  const policyOf = ({ child }: StepCall) => (child ? subagentFailure : toolFailure);
  const failed = calls.find((call) => hasFailed(call) && policyOf(call) !== 'feed_back');
  if (!failed?.result) return undefined;
  // Begins with our own words, so that no tool's text can be taken for one of the queue's control messages.
  const message = `${failed.child ? 'another agent' : 'a tool'} failed: ${failed.result.content}`;
  if (policyOf(failed) === 'degrade') return { kind: 'degrade', text: message };
  if (failed.result.errorKind === 'sandbox_unavailable') return fail(new RunError('sandbox_error', message));
  if (failed.result.errorKind !== 'tool_unavailable') return fail(new RunError('tool_failed', message));
  // Nothing that a model could do, and no other try, gives this worker what it lacks.
  return fail(new RunError('internal', message, { details: { reason: 'tool_unavailable' } }));
}

function tooMany(limit: CallLimit, { [limit]: most }: Limits): RunError {
  const things = most === 1 ? counted[limit] : several[limit];
  return new RunError('turn_limit', `the run reached its limit of ${most} ${things} (limits.${limit})`);
}

function fail(error: RunError): Move {
  return { kind: 'fail', error };
}
