import { assertNever } from '../base/run-error.ts';
import type { RunEvent } from '../contract/event.ts';
import {
  isBorder,
  isGovernance,
  isMachinery,
  isTeamwork,
  isToolDetail,
  type Dialect,
  type DialectEvent,
  type Projector,
} from './dialect.ts';

/**
 * Calls of a callback interface: `type` is the name of the callback and `args` its arguments in order, null for those
 * that are absent. A cancelled run calls nothing at its end.
 */
export const callbacks: Dialect = () => {
  const calls = new Map<string, string>();
  return (event) => {
    const summary = summaryAfter(event, calls);
    return summary === undefined ? callOf(event) : call('onToolUseSummary', summary);
  };
};

const maxCalls = 32;

/** What the calls of a step came to, a line each, once the step is complete. Calls of scripts are part of their script. */
function summaryAfter(event: RunEvent, calls: Map<string, string>): string | undefined {
  if (event.type === 'tool.execute.start') {
    if (event.parentToolCallId === undefined) calls.set(event.toolCallId, event.summary);
  } else if (event.type === 'tool.execute.end' || event.type === 'tool.execute.error') {
    const started = calls.get(event.toolCallId);
    const outcome = event.success ? 'done' : `failed (${event.error.kind})`;
    if (started !== undefined) calls.set(event.toolCallId, `${started}: ${outcome}`);
  } else if (event.type === 'step.end') {
    const lines = [...calls.values()];
    calls.clear();
    const rest = lines.length > maxCalls ? [`and ${lines.length - maxCalls} more`] : [];
    if (lines.length > 0) return [...lines.slice(0, maxCalls), ...rest].join('\n');
  }
  return undefined;
}

const callOf: Projector = (event) => {
  if (isMachinery(event) || isTeamwork(event)) return [];
  if (isToolDetail(event) || isGovernance(event) || isBorder(event)) return [];
  const { agentId = null, threadId = null } = event;
  switch (event.type) {
    case 'agent.thinking':
      return call('onThinking');
    case 'text.complete':
      return call('onAssistantMessage', event.text);
    case 'tool.execute.start':
      return call('onToolUse', event.toolName, event.args, event.summary);
    case 'agent.response':
      return call('onResponse', agentId, threadId, event.text);
    case 'run.failed':
      return call('onError', agentId, threadId, event.error.message);
    case 'capability.file_sent': {
      const { path, handle, caption = null, fileType } = event;
      return call('onFileSend', agentId, threadId, path ?? handle ?? null, caption, fileType);
    }
    case 'capability.note_shared':
      return call('onShareNote', agentId, threadId, event.title, event.slug, event.message ?? null);
    case 'capability.pin_changed':
      return call('onPinChange', agentId);
    case 'capability.user_notified':
      return call('onNotifyUser', agentId, threadId, event.message);
    case 'run.started':
    case 'run.cancelled':
    case 'run.completed':
    case 'agent.model.fellback':
    case 'step.start':
    case 'step.reset':
    case 'text.delta':
    case 'reasoning.delta':
    case 'llm.call':
    case 'cost.updated':
    case 'tool.execute.end':
    case 'tool.execute.error':
    case 'tool.approval.requested':
      return [];
    default:
      return assertNever(event);
  }
};

function call(type: string, ...args: readonly unknown[]): DialectEvent[] {
  return [{ type, args }];
}
