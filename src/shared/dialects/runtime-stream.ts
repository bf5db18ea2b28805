import { assertNever } from '../base/run-error.ts';
import type { EventOf, RunEvent } from '../contract/event.ts';
import { jsonText } from '../base/json.ts';
import { microcentsPerUsd } from '../contract/plain/amounts.ts';
import {
  isBorder,
  isCapability,
  isGovernance,
  isMachinery,
  isTeamwork,
  isToolDetail,
  type Dialect,
  type DialectEvent,
} from './dialect.ts';

/**
 * The stream of a task runtime. The task is the run; its intent is the agent. Costs are floating-point USD, and the input
 * tokens of a call include what came from the cache.
 */
export const runtimeStream: Dialect = () => {
  let call: EventOf<'llm.call'> | undefined;

  return (event) => {
    if (isMachinery(event) || isTeamwork(event) || isBorder(event)) return [];
    if (isCapability(event) || isToolDetail(event) || isGovernance(event)) return [];
    switch (event.type) {
      case 'run.started':
        return event.resumed ? [] : emit(event, 'task_start');
      case 'step.start':
        return emit(event, 'control_step', { step: { index: event.stepNumber, model: event.model } });
      case 'text.delta':
        return emit(event, 'text_delta', { text: event.delta });
      case 'reasoning.delta':
        return emit(event, 'reasoning_delta', { text: event.delta });
      case 'tool.execute.start':
        return emit(event, 'tool_call', { toolName: event.toolName, toolCallId: event.toolCallId, args: event.args });
      case 'tool.execute.end':
        return emit(event, 'tool_result', { ...namesOf(event), result: event.outputSummary });
      case 'tool.execute.error':
        return emit(event, 'tool_result', { ...namesOf(event), result: { error: event.error } });
      case 'llm.call':
        call = event;
        return [];
      case 'cost.updated':
        return emit(event, 'llm_call', llmCall(event, call));
      case 'tool.approval.requested': {
        const { toolCallId: proposalId, toolName: title, args } = event;
        return emit(event, 'proposal_created', { proposalId, title, status: 'pending', content: jsonText(args) });
      }
      case 'run.completed':
        return ended(event, event.status === 'blocked' ? 'blocked' : 'completed', event.status, {
          text: event.result.text,
        });
      case 'run.failed': {
        const { code, message } = event.error;
        const partial = event.partial && { text: event.partial };
        return ended(event, 'failed', code, { ...partial, error: { kind: 'backend', message } });
      }
      case 'run.cancelled':
        return ended(event, 'aborted', event.reason ?? 'cancelled', {});
      case 'agent.thinking':
      case 'agent.response':
      case 'agent.model.fellback':
      case 'step.reset':
      case 'text.complete':
        return [];
      default:
        return assertNever(event);
    }
  };
};

function emit(event: RunEvent, type: string, fields: object = {}): DialectEvent[] {
  const task = { id: event.runId, intent: event.agentId ?? '' };
  return [{ type, task, timestamp: event.timestamp, ...fields }];
}

function ended(event: RunEvent, status: string, reason: string, final: object): DialectEvent[] {
  return [...emit(event, 'task_end', { status, reason }), ...emit(event, 'final', { status, reason, ...final })];
}

function namesOf({ toolName, toolCallId }: { readonly toolName: string; readonly toolCallId: string }): object {
  return { toolName, toolCallId };
}

/** The money of an attempt comes right after what is known about the call. */
function llmCall(cost: EventOf<'cost.updated'>, call: EventOf<'llm.call'> | undefined): object {
  const { model, inputTokens, cachedTokens = 0, cacheWriteTokens = 0, outputTokens: tokensOut, costMicrocents } = cost;
  const known = call?.model === model && call.attemptNumber === cost.attemptNumber ? call : undefined;
  return {
    model,
    tokensIn: inputTokens + cachedTokens + cacheWriteTokens,
    tokensOut,
    costUsd: costMicrocents / microcentsPerUsd,
    ...(known && { latencyMs: known.latencyMs }),
    ...(known?.finishReason && { finishReason: known.finishReason }),
  };
}
