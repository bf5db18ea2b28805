import type { EventOf, EventType, RunEvent } from '../../../shared/contract/event.ts';
import { formatUsd } from '../../../shared/contract/money.ts';
import { count, duration, oneLine } from './paint.ts';
import { waitsFor } from './pending.ts';

const maxArgs = 160;
const maxText = 240;

/** What a person wants to know of an event in one line; events that are not here are left out of pretty output. */
const lines: { readonly [T in EventType]?: (event: EventOf<T>) => string } = {
  'run.queued': () => 'queued',
  'run.started': ({ resumed, attempt, model }) => {
    if (resumed) return `continues on another worker (attempt ${attempt})`;
    return model ? `started with ${model}` : 'started';
  },
  'run.suspended': ({ reason, pending }) => `waits for ${waitsFor({ pending }) || reason}`,
  'run.resumed': ({ directiveSummary }) => `continues: ${oneLine(directiveSummary, maxText)}`,
  'run.timeout': ({ timeoutMs }) => `reached its limit of ${duration(timeoutMs)}`,
  'run.completed': ({ status, usage, costMicrocents, durationMs }) =>
    `${status} · ${count(usage.total)} tokens · ${formatUsd(costMicrocents)} · ${duration(durationMs)}`,
  'run.failed': ({ error, usage, costMicrocents }) =>
    `failed: ${error.code}: ${oneLine(error.message, maxText)} · ${count(usage.total)} tokens · ${formatUsd(costMicrocents)}`,
  'run.cancelled': ({ reason, usage, costMicrocents }) =>
    `cancelled${reason ? ` (${oneLine(reason, maxText)})` : ''} · ${count(usage.total)} tokens · ${formatUsd(costMicrocents)}`,
  'step.reset': ({ reason }) => `the text of this step was discarded: ${oneLine(reason, maxText)}`,
  'agent.model.fellback': ({ previousModel, nextModel, reason }) =>
    `model ${previousModel} gave way to ${nextModel} (${reason})`,
  'agent.cancelling': ({ drain }) => (drain ? 'is asked to stop after this step' : 'is asked to stop'),
  'agent.steered': ({ text }) => `message: ${oneLine(text, maxText)}`,
  'budget.warning': ({ spentMicrocents, limitMicrocents, thresholdPct }) =>
    `has spent ${thresholdPct} % of its budget (${formatUsd(spentMicrocents)} of ${formatUsd(limitMicrocents)})`,
  'budget.paused': ({ spentMicrocents, limitMicrocents, scope, accountId }) =>
    `the next call could pass the budget of ${scope} ${accountId} (${formatUsd(spentMicrocents)} of ${formatUsd(limitMicrocents)} spent)`,
  'tool.execute.start': ({ toolName, args }) => `→ ${toolName} ${oneLine(JSON.stringify(args), maxArgs)}`,
  'tool.execute.progress': ({ data }) => `  ${oneLine(JSON.stringify(data), maxText)}`,
  'tool.execute.end': ({ toolName, outputSummary, durationMs }) =>
    `← ${toolName} ${oneLine(outputSummary, maxText)} (${duration(durationMs)})`,
  'tool.execute.error': ({ toolName, error, durationMs }) =>
    `✗ ${toolName} ${error.kind}: ${oneLine(error.message, maxText)} (${duration(durationMs)})`,
  'tool.call.incomplete': ({ toolName }) => `✗ ${toolName} was cut off while the model wrote its arguments`,
  'tool.outcome_unknown': ({ toolName }) => `✗ ${toolName} may or may not have taken effect`,
  'tool.approval.requested': ({ toolName, toolCallId, args }) =>
    `asks to call ${toolName} ${oneLine(JSON.stringify(args), maxArgs)} (${toolCallId})`,
  'agent.fanout.spawned': ({ children }) => `asks ${oneLine(children.join(', '), maxText)}`,
  'agent.fanout.merged': ({ children, statuses }) =>
    `merged: ${oneLine(children.map((id, at) => `${id} ${statuses[at]}`).join(', '), maxText)}`,
  'agent.evaluator.iteration': ({ iteration, passed, score }) =>
    `answer ${iteration} ${passed ? 'passes' : 'does not pass'}${score === undefined ? '' : ` with ${score} points`}`,
  'task.decide': ({ decision }) => `decides ${oneLine(JSON.stringify(decision), maxText)}`,
  'task.end': ({ status, reason }) => `task ${status}: ${oneLine(reason, maxText)}`,
  'context.compacted': ({ beforeTokens, afterTokens }) =>
    `context compacted from ${count(beforeTokens)} to ${count(afterTokens)} tokens`,
  'guardrail.tripped': ({ guardrail }) => `guardrail ${guardrail} stopped it`,
  'llm.call': ({ outcome, model, error }) =>
    outcome === 'failed'
      ? `model ${model} failed: ${error?.kind ?? 'unknown'} ${oneLine(error?.message ?? '', maxText)}`.trimEnd()
      : '',
};

/** The line for an event, without its run and time; undefined when it is not worth one. */
export function lineOf(event: RunEvent): string | undefined {
  const describe = lines[event.type] as ((event: RunEvent) => string) | undefined;
  return describe?.(event) || undefined;
}
