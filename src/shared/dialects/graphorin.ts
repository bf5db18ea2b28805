import { assertNever } from '../base/run-error.ts';
import { among, bodyOf, isCapability, isGovernance, isMachinery, type Dialect } from './dialect.ts';

/** Events whose names and fields are the same in both. */
const isShared = among([
  'text.complete',
  'tool.call.start',
  'tool.call.end',
  'tool.execute.start',
  'tool.execute.progress',
  'tool.execute.partial',
  'tool.execute.end',
  'tool.execute.error',
  'tool.approval.requested',
  'tool.approval.granted',
  'tool.approval.denied',
  'context.compacted',
  'handoff',
  'subagent.event',
  'agent.fanout.spawned',
  'agent.fanout.merged',
  'agent.evaluator.iteration',
  'agent.evaluator.converged',
  'agent.lateral-leak.detected',
  'agent.progress.written',
  'agent.progress.read',
  'guardrail.tripped',
  'file.generated',
  'source.cited',
  'verifier.result',
]);

/**
 * The dotted names that ours come from, without our envelope. Begins with `agent.start`; the last event is `agent.end`
 * or `agent.error`, exactly one of them, made of the event that ends the run.
 */
export const graphorin: Dialect = () => (event) => {
  if (isMachinery(event) || isCapability(event) || isGovernance(event)) return [];
  if (isShared(event)) return [bodyOf(event)];
  const { type, runId } = event;
  switch (event.type) {
    case 'agent.start':
      return [{ type, runId, ...(event.agentId && { agentId: event.agentId }) }];
    case 'step.start':
      return [{ type, stepNumber: event.stepNumber }];
    case 'step.end':
      return [{ type, stepNumber: event.stepNumber, usage: event.usage }];
    case 'text.delta':
    case 'reasoning.delta':
      return [{ type, delta: event.delta }];
    case 'tool.call.delta':
      return [{ type, toolCallId: event.toolCallId, argsDelta: event.delta }];
    case 'agent.model.fellback': {
      const { previousModel, nextModel, reason, stepNumber, attempt } = event;
      return [
        { type, runId, previousModel, nextModel, from: previousModel, to: nextModel, reason, stepNumber, attempt },
      ];
    }
    case 'agent.cancelling':
      return [{ type, runId, drain: event.drain, onPendingApprovals: event.onPendingApprovals }];
    case 'agent.steered':
    case 'agent.followup.queued':
      return [{ type, runId }];
    case 'run.completed':
      return ended(runId, event.result.output ?? event.result.structured ?? event.result.text, 'completed');
    case 'run.cancelled':
      return ended(runId, '', 'aborted');
    case 'run.failed':
      return [{ type: 'agent.error', error: { code: event.error.code, message: event.error.message } }];
    case 'run.started':
    case 'agent.end':
    case 'agent.error':
    case 'agent.thinking':
    case 'agent.response':
    case 'step.reset':
    case 'llm.call':
    case 'cost.updated':
    case 'tool.call.incomplete':
    case 'input.file_fetched':
    case 'input.file_expired':
      return [];
    default:
      return assertNever(event);
  }
};

function ended(runId: string, output: unknown, status: string) {
  return [{ type: 'agent.end', runId, output, status }];
}
