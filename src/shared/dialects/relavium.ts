import { pendingNameOf } from '../contract/plain/pending.ts';
import { defined } from '../base/collections.ts';
import type { ErrorInfo } from '../base/errors.ts';
import { assertNever } from '../base/run-error.ts';
import type { EventOf, RunEvent } from '../contract/event.ts';
import {
  among,
  bodyOf,
  isBorder,
  isCapability,
  isMachinery,
  isTeamwork,
  isToolDetail,
  type Among,
  type Dialect,
} from './dialect.ts';

/** Waits of these kinds are gates: a person has to decide. */
const gates: ReadonlySet<string> = new Set(['approval', 'budget', 'user_input', 'unknown_outcome']);

/** Nothing that this dialect has words for. */
const isQuiet = among(['agent.thinking', 'agent.response', 'agent.model.fellback', 'step.reset', 'text.complete']);
const isOfNode = among(['node.started', 'node.completed', 'node.failed', 'node.retrying', 'media_job.submitted']);
const isOfRun = among([
  'run.started',
  'run.suspended',
  'run.completed',
  'run.failed',
  'run.cancelled',
  'run.timeout',
  'budget.warning',
  'budget.paused',
]);

/** What a reader is sent: the type and the fields beside the envelope. Undefined: nothing. */
type Sent = readonly [type: string, fields?: object] | undefined;

/** What earlier events said that later ones need. */
interface Seen {
  /** Attempts by the tool calls they asked for, until those are over. */
  readonly attempts: Map<string, number>;
  model: string;
  attempt: number | undefined;
  nodeStartedAt: string | undefined;
}

/**
 * Event names with colons, integer microcents, and numbers of its own: they rise from 1 without gaps over what is sent
 * here, because a reader of this dialect takes a gap for a loss. A run that is no node goes by the id of its agent.
 */
export const relavium: Dialect = () => {
  const seen: Seen = { attempts: new Map(), model: '', attempt: undefined, nodeStartedAt: undefined };
  let sequenceNumber = 0;
  return (event) => {
    if (isMachinery(event) || isCapability(event) || isTeamwork(event) || isToolDetail(event)) return [];
    if (isBorder(event) || isQuiet(event)) return [];
    const sent = isOfRun(event) ? ofRun(event) : isOfNode(event) ? ofNode(event, seen) : ofStep(event, seen);
    if (!sent) return [];
    const [type, fields] = sent;
    const { runId, timestamp } = event;
    sequenceNumber++;
    return [defined({ type, runId, timestamp, sequenceNumber, ...fields })];
  };
};

function ofRun(event: Among<typeof isOfRun>): Sent {
  const nodeId = nodeOf(event);
  switch (event.type) {
    case 'run.started':
      return event.resumed ? undefined : ['run:started', { workflowId: nodeId, inputs: {}, executionMode: 'managed' }];
    case 'run.suspended': {
      if (!gates.has(event.reason)) return undefined;
      const gateIds = event.pending.map(pendingNameOf);
      return ['run:paused', { pendingGateCount: gateIds.length, gateIds }];
    }
    case 'run.completed': {
      const { result, usage, costMicrocents: totalCostMicrocents, durationMs } = event;
      const outputs = { [nodeId]: result.output ?? result.structured ?? result.text };
      const totalTokensUsed = { input: usage.input, output: usage.output };
      return ['run:completed', { outputs, totalTokensUsed, totalCostMicrocents, durationMs }];
    }
    case 'run.failed': {
      const error = defined({ ...errorOf(event.error), nodeId: event.nodeId });
      return ['run:failed', { error, partialOutputs: event.partial ? { [nodeId]: event.partial } : {} }];
    }
    case 'run.cancelled':
      return ['run:cancelled'];
    case 'run.timeout':
    case 'budget.warning':
    case 'budget.paused':
      return renamed(event);
    default:
      return assertNever(event);
  }
}

function ofNode(event: Among<typeof isOfNode>, seen: Seen): Sent {
  const nodeId = nodeOf(event);
  switch (event.type) {
    case 'node.started':
      seen.nodeStartedAt = event.timestamp;
      return ['node:started', { nodeId, nodeType: 'agent' }];
    case 'node.completed': {
      const { output, tokensUsed, timestamp } = event;
      return ['node:completed', { nodeId, output, tokensUsed, durationMs: between(seen.nodeStartedAt, timestamp) }];
    }
    case 'node.failed':
      return ['node:failed', { nodeId, error: errorOf(event.error) }];
    case 'node.retrying': {
      const { attemptNumber, error, delayMs } = event;
      return ['node:retrying', { nodeId, attemptNumber, error: errorOf(error), delayMs }];
    }
    case 'media_job.submitted':
      return renamed(event, { nodeId });
    default:
      return assertNever(event);
  }
}

type OfStep =
  | 'step.start'
  | 'llm.call'
  | 'text.delta'
  | 'reasoning.delta'
  | 'tool.execute.start'
  | 'tool.execute.end'
  | 'tool.execute.error'
  | 'tool.approval.requested'
  | 'cost.updated';

function ofStep(event: EventOf<OfStep>, seen: Seen): Sent {
  const nodeId = nodeOf(event);
  switch (event.type) {
    case 'step.start':
      seen.model = event.model;
      return undefined;
    case 'llm.call':
      if (event.outcome === 'succeeded') [seen.model, seen.attempt] = [event.model, event.attemptNumber];
      return undefined;
    case 'text.delta':
      return ['agent:token', { nodeId, token: event.delta, model: event.model }];
    case 'reasoning.delta':
      return ['agent:reasoning', { nodeId, text: event.delta, model: event.model }];
    case 'tool.execute.start': {
      const { toolCallId, toolName: toolId, args: toolInput, attemptNumber = seen.attempt } = event;
      if (attemptNumber) seen.attempts.set(toolCallId, attemptNumber);
      return ['agent:tool_call', { nodeId, model: seen.model, toolId, toolInput, attemptNumber }];
    }
    case 'tool.execute.end':
    case 'tool.execute.error': {
      const { toolCallId, toolName: toolId, success } = event;
      const outputSummary = event.success ? event.outputSummary : event.error.message;
      const attemptNumber = seen.attempts.get(toolCallId);
      seen.attempts.delete(toolCallId);
      return ['agent:tool_result', { nodeId, toolId, success, outputSummary, attemptNumber }];
    }
    case 'tool.approval.requested': {
      const { toolCallId, toolName: toolId, args: toolInput, expiresAt } = event;
      const reason = event.reason === '' ? undefined : event.reason;
      return ['agent:approval_requested', { nodeId, toolId, toolCallId, toolInput, reason, expiresAt }];
    }
    case 'cost.updated': {
      const { model, inputTokens, outputTokens, costMicrocents, cumulativeCostMicrocents, attemptNumber } = event;
      const cost = { inputTokens, outputTokens, costMicrocents, cumulativeCostMicrocents };
      return ['cost:updated', { nodeId, model, ...cost, attemptNumber }];
    }
    default:
      return assertNever(event);
  }
}

/** An event that has the same fields here. */
function renamed(event: RunEvent, more: object = {}): Sent {
  const { type, ...fields } = bodyOf(event);
  return [type.replace('.', ':'), { ...more, ...fields }];
}

function nodeOf({ nodeId, agentId, runId }: RunEvent): string {
  return nodeId ?? agentId ?? runId;
}

function errorOf({ code, message, retryable }: ErrorInfo): object {
  return { code, message, retryable };
}

function between(from: string | undefined, to: string): number {
  return from === undefined ? 0 : Math.max(0, Date.parse(to) - Date.parse(from));
}
