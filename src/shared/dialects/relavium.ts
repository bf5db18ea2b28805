import { pendingNameOf } from '../contract/decisions.ts';
import { assertNever, type ErrorInfo } from '../base/errors.ts';
import type { EventOf, RunEvent } from '../contract/event.ts';
import {
  bodyOf,
  isCapability,
  isMachinery,
  isTask,
  isTeamwork,
  isToolDetail,
  type Dialect,
  type DialectEvent,
} from './dialect.ts';

/** Waits of these kinds are gates: somebody has to decide. */
const gates: ReadonlySet<string> = new Set(['approval', 'budget', 'user_input', 'unknown_outcome']);

/**
 * Event names with colons, integer microcents, and numbers of its own: they rise from 1 without gaps over what is told
 * here, because a reader of this dialect takes a gap for a loss. A run that is no node goes by the id of its agent.
 */
export const relavium: Dialect = () => {
  /** Attempts by the tool calls they asked for, until those are over. */
  const attempts = new Map<string, number>();
  let told = 0;
  let model = '';
  let attempt: number | undefined;
  let nodeStartedAt: string | undefined;

  function tell(event: RunEvent, type: string, fields: object = {}): DialectEvent[] {
    const { runId, timestamp } = event;
    return [{ type, runId, timestamp, sequenceNumber: ++told, ...fields }];
  }

  function tellToolEnd(event: EventOf<'tool.execute.end' | 'tool.execute.error'>): DialectEvent[] {
    const { toolCallId, toolName: toolId, success } = event;
    const outputSummary = event.success ? event.outputSummary : event.error.message;
    const attemptNumber = attempts.get(toolCallId);
    attempts.delete(toolCallId);
    const result = { nodeId: nodeOf(event), toolId, success, outputSummary };
    return tell(event, 'agent:tool_result', { ...result, ...(attemptNumber && { attemptNumber }) });
  }

  return (event) => {
    if (isMachinery(event) || isTask(event) || isCapability(event) || isTeamwork(event) || isToolDetail(event))
      return [];
    const nodeId = nodeOf(event);
    switch (event.type) {
      case 'run.started':
        if (event.resumed) return [];
        return tell(event, 'run:started', { workflowId: nodeId, inputs: {}, executionMode: 'managed' });
      case 'node.started':
        nodeStartedAt = event.timestamp;
        return tell(event, 'node:started', { nodeId, nodeType: 'agent' });
      case 'step.start':
        model = event.model;
        return [];
      case 'llm.call':
        if (event.outcome === 'succeeded') ({ model, attemptNumber: attempt } = event);
        return [];
      case 'text.delta':
        return tell(event, 'agent:token', { nodeId, token: event.delta, model: event.model });
      case 'reasoning.delta':
        return tell(event, 'agent:reasoning', { nodeId, text: event.delta, model: event.model });
      case 'tool.execute.start': {
        const { toolCallId, toolName: toolId, args: toolInput, attemptNumber = attempt } = event;
        if (attemptNumber) attempts.set(toolCallId, attemptNumber);
        const call = { nodeId, model, toolId, toolInput };
        return tell(event, 'agent:tool_call', { ...call, ...(attemptNumber && { attemptNumber }) });
      }
      case 'tool.execute.end':
      case 'tool.execute.error':
        return tellToolEnd(event);
      case 'tool.approval.requested': {
        const { toolCallId, toolName: toolId, args: toolInput, reason, expiresAt } = event;
        const asked = { nodeId, toolId, toolCallId, toolInput };
        return tell(event, 'agent:approval_requested', {
          ...asked,
          ...(reason && { reason }),
          ...(expiresAt && { expiresAt }),
        });
      }
      case 'cost.updated': {
        const { inputTokens, outputTokens, costMicrocents, cumulativeCostMicrocents, attemptNumber } = event;
        const cost = {
          nodeId,
          model: event.model,
          inputTokens,
          outputTokens,
          costMicrocents,
          cumulativeCostMicrocents,
        };
        return tell(event, 'cost:updated', { ...cost, ...(attemptNumber && { attemptNumber }) });
      }
      case 'node.completed': {
        const { output, tokensUsed } = event;
        return tell(event, 'node:completed', {
          nodeId,
          output,
          tokensUsed,
          durationMs: between(nodeStartedAt, event.timestamp),
        });
      }
      case 'node.failed':
        return tell(event, 'node:failed', { nodeId, error: errorOf(event.error) });
      case 'node.retrying': {
        const { attemptNumber, error, delayMs } = event;
        return tell(event, 'node:retrying', { nodeId, attemptNumber, error: errorOf(error), delayMs });
      }
      case 'media_job.submitted':
      case 'budget.warning':
      case 'budget.paused':
      case 'run.timeout': {
        const { type, ...fields } = bodyOf(event);
        const ofNode = event.type === 'media_job.submitted';
        return tell(event, type.replace('.', ':'), { ...(ofNode && { nodeId }), ...fields });
      }
      case 'run.suspended': {
        if (!gates.has(event.reason)) return [];
        const gateIds = event.pending.map(pendingNameOf);
        return tell(event, 'run:paused', { pendingGateCount: gateIds.length, gateIds });
      }
      case 'run.completed': {
        const { result, usage, costMicrocents: totalCostMicrocents, durationMs } = event;
        const outputs = { [nodeId]: result.output ?? result.structured ?? result.text };
        const totalTokensUsed = { input: usage.input, output: usage.output };
        return tell(event, 'run:completed', { outputs, totalTokensUsed, totalCostMicrocents, durationMs });
      }
      case 'run.failed': {
        const error = { ...errorOf(event.error), ...(event.nodeId && { nodeId: event.nodeId }) };
        return tell(event, 'run:failed', { error, partialOutputs: event.partial ? { [nodeId]: event.partial } : {} });
      }
      case 'run.cancelled':
        return tell(event, 'run:cancelled');
      case 'agent.start':
      case 'agent.end':
      case 'agent.error':
      case 'agent.thinking':
      case 'agent.response':
      case 'agent.model.fellback':
      case 'step.reset':
      case 'step.end':
      case 'text.complete':
      case 'tool.summary':
      case 'tool.approval.granted':
      case 'tool.approval.denied':
        return [];
      default:
        return assertNever(event);
    }
  };
};

function nodeOf({ nodeId, agentId, runId }: RunEvent): string {
  return nodeId ?? agentId ?? runId;
}

function errorOf({ code, message, retryable }: ErrorInfo): object {
  return { code, message, retryable };
}

function between(from: string | undefined, to: string): number {
  return from === undefined ? 0 : Math.max(0, Date.parse(to) - Date.parse(from));
}
