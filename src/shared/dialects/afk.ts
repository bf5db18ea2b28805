import { defined } from '../base/collections.ts';
import { assertNever } from '../base/run-error.ts';
import type { RunEvent } from '../contract/event.ts';
import type { Usage } from '../contract/money.ts';
import { microcentsPerUsd } from '../contract/plain/amounts.ts';
import type { RunOutcomeView } from '../contract/run.ts';
import {
  among,
  grossInput,
  isBorder,
  isCapability,
  isMachinery,
  isTeamwork,
  isToolDetail,
  type Dialect,
  type DialectEvent,
} from './dialect.ts';

/** Nothing that this dialect has words for. */
const isQuiet = among([
  'run.started',
  'run.suspended',
  'run.timeout',
  'agent.thinking',
  'agent.response',
  'text.complete',
  'reasoning.delta',
  'llm.call',
  'cost.updated',
  'budget.warning',
  'budget.paused',
  'node.started',
  'node.completed',
  'node.failed',
  'node.retrying',
  'media_job.submitted',
]);

/**
 * Names with underscores, a step on every event. The last event is always `completed`, with the whole result; before that
 * of a failed run comes `error`. Costs are floating-point USD, and input tokens include what came from the cache.
 */
export const afk: Dialect = () => {
  let step = 0;

  function emit(type: string, fields: object): DialectEvent[] {
    return [{ type, step, ...fields }];
  }

  return (event) => {
    if (isMachinery(event) || isTeamwork(event) || isCapability(event) || isToolDetail(event)) return [];
    if (isBorder(event) || isQuiet(event)) return [];
    switch (event.type) {
      case 'step.start':
        step = event.stepNumber;
        return emit('step_started', { state: 'running' });
      case 'text.delta':
        return emit('text_delta', { text_delta: event.delta });
      case 'tool.execute.start':
        return emit('tool_started', namesOf(event));
      case 'tool.execute.end':
        return emit('tool_completed', { ...namesOf(event), tool_success: true, tool_output: event.outputSummary });
      case 'tool.execute.error':
        return emit('tool_completed', { ...namesOf(event), tool_success: false, tool_error: event.error.message });
      case 'tool.approval.requested':
        return emit('tool_deferred', {
          ...namesOf(event),
          tool_ticket_id: event.toolCallId,
          data: { resume_hint: event.reason ?? 'waits for an approval' },
        });
      case 'agent.model.fellback': {
        const { previousModel: previous_model, nextModel: next_model, reason } = event;
        const message = `model ${previous_model} gave way to ${next_model}`;
        return emit('warning', { data: { message, previous_model, next_model, reason } });
      }
      case 'step.reset':
        return emit('warning', { data: { message: 'the text of this step is to be forgotten', reason: event.reason } });
      case 'run.completed':
      case 'run.cancelled':
        return emit('completed', { result: afkResult({ status: 'cancelled', ...event }) });
      case 'run.failed': {
        const completed = emit('completed', { result: afkResult({ ...event, status: 'failed' }) });
        return [...emit('error', { error: event.error.message }), ...completed];
      }
      default:
        return assertNever(event);
    }
  };
};

/** How a run ended, from its last event or from what a caller who waited got. */
type Ending = Pick<RunOutcomeView, 'runId' | 'status' | 'costMicrocents'> & Partial<RunOutcomeView>;

/** The result in the words of this dialect. Made of a terminal event it equals the one made of `RunHandle.result`. */
export function afkResult({ runId, status, result, error, usage, costMicrocents }: Ending): Record<string, unknown> {
  const structured = result?.structured ?? result?.output;
  const models = Object.entries(usage?.byModel ?? {}).map(([model, used]) => [model, tokensOf(used)]);
  return defined({
    run_id: runId,
    state: status,
    final_text: result?.text ?? '',
    final_structured: structured,
    error: error?.message,
    usage_aggregate: { ...tokensOf(usage), by_model: Object.fromEntries(models) },
    total_cost_usd: costMicrocents / microcentsPerUsd,
  });
}

function tokensOf(usage: Usage | undefined): object {
  if (!usage) return { input_tokens: 0, output_tokens: 0, total_tokens: 0 };
  return { input_tokens: grossInput(usage), output_tokens: usage.output, total_tokens: usage.total };
}

function namesOf({ toolName, toolCallId }: Extract<RunEvent, { toolName: string; toolCallId: string }>): object {
  return { tool_name: toolName, tool_call_id: toolCallId };
}
