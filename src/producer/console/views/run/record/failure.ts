import type { ErrorCode } from '../../../../../shared/base/run-error.ts';
import type { CallView, RunSteps, StepView } from '../../../../../shared/contract/archive/run-steps.ts';
import { allCalls, anchorOfCall, anchorOfStep } from './waterfall.ts';

/** What to look at first in a run that went wrong. */
export type Culprit =
  | { readonly kind: 'call'; readonly call: CallView; readonly step: StepView; readonly anchor: string }
  | { readonly kind: 'step'; readonly step: StepView; readonly anchor: string };

/** The last call that failed, or the last step without an answer, whichever came later. Undefined: neither is there. */
export function culpritOf({ runId, steps }: RunSteps): Culprit | undefined {
  for (const step of steps.toReversed()) {
    const attempts = step.attempts.filter(({ outcome }) => outcome !== 'skipped');
    const hasNoAnswer = attempts.length > 0 && attempts.every(({ outcome }) => outcome === 'failed');
    if (hasNoAnswer) return { kind: 'step', step, anchor: anchorOfStep(runId, step.stepNumber) };
    const call = allCalls([step]).findLast(({ error }) => error !== undefined);
    if (call) return { kind: 'call', call, step, anchor: anchorOfCall(runId, step.stepNumber, call.toolCallId) };
  }
  return undefined;
}

/** How many calls failed, of how many. */
export function callCounts({ steps }: RunSteps): { readonly calls: number; readonly failed: number } {
  const calls = allCalls(steps);
  return { calls: calls.length, failed: calls.filter(({ error }) => error !== undefined).length };
}

/** What to do about an error that ended a run. `undefined` where its message says all there is to say. */
export function adviceFor(code: string): string | undefined {
  return Object.hasOwn(advice, code) ? advice[code as ErrorCode] : undefined;
}

const advice: Readonly<Partial<Record<ErrorCode, string>>> = {
  validation: 'Compare the input with what the agent and its tools accept, then edit and run again.',
  content_filter: 'The provider refused the content. Reword the input, or give the agent a model of another provider.',
  provider_auth: 'Check the key of the provider where the workers run, then redrive.',
  provider_rate_limit: 'Redrive later. Lower limits per provider or more fallback models keep it from happening again.',
  provider_unavailable:
    'Redrive: the provider failed for longer than the attempts lasted. See the attempts of the last step.',
  context_length_exceeded: 'Shorten the input, or switch on compaction for the agent.',
  tool_denied: 'A policy or a grant refused a call: see the call below.',
  tool_failed: 'See the call below: its arguments and its error. Redrive once the cause is gone.',
  tool_outcome_unknown: 'Find out whether the call took effect before you run it again.',
  tool_unavailable: 'Start a worker that has what the tool needs, then redrive.',
  sandbox_error: 'See the log of the worker: it could not start a process for scripts. Then redrive.',
  turn_limit: 'Raise `limits` of the run, or find out in the steps below why it needs so many.',
  no_progress: 'See which calls repeat. A clearer error or result of that tool usually ends it.',
  run_timeout: 'Raise `limits.wallTimeMs`, or see in the timeline what takes so long.',
  deadline_exceeded: 'See in the timeline what it waited for. Edit and run again with a later deadline.',
  input_unavailable: 'Check the address of the file, then edit and run again.',
  budget_exceeded: 'Raise the budget, or see below which step cost most.',
  budget_unpriced: 'Give the model a price where providers are configured, or allow unpriced models for the run.',
  depth_limit: 'Agents asked agents too deep: see the tree of runs.',
  output_validation_failed: 'Compare the last answer with the schema of the output.',
  incomplete_tool_call: 'The model was cut off. Redrive, or allow longer answers.',
  queue_expired: 'No worker took it in time: see whether workers serve its queue, then redrive.',
  policy_denied: 'A policy refused the model call: see the findings below.',
  guardrail_blocked: 'A guard stopped it: see the findings below.',
  merge_blocked: 'A guard stopped what was made of several answers: see the findings below.',
  protocol_injection_rejected: 'A text had control characters that the guard refuses: see the findings below.',
  multiple_handoffs_in_step: 'The model handed over to several agents at once: see the calls of the last step.',
  handoff_target_not_found: 'Start a worker that has the agent which was to take over, then redrive.',
  run_aborted: 'It was cancelled while calls waited for a decision, and the request asked for failure.',
  progress_write_failed: 'Check that the artifact store can be written, then redrive.',
  run_state_malformed: 'Its record cannot be read: see the log of the workers, and run it again.',
  run_state_version_unsupported: 'Another version of Millrace wrote it: redrive with a worker of that version.',
  mcp_unavailable: 'Check that the MCP server answers where the workers run, then redrive.',
  lock_lost: 'Another worker took the run over: see the timeline, then redrive.',
  worker_lost: 'Its workers died again and again: see the timeline for which, and their logs for why.',
  cancelled: 'It was cancelled. The reason, if one was given, is in its last event.',
  internal: 'See the log of the worker under the id of this run.',
  queue_unavailable: 'See whether Redis answers (`millrace doctor`), then redrive.',
  concurrent_run: 'Another run had its thread: run it again.',
  thread_suspended: 'Another run of its thread waits: decide about that one first.',
};

/** The errors that end runs. */
export const errorsWithAdvice: readonly string[] = Object.keys(advice).sort();
