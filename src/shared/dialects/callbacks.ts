import { assertNever } from '../base/errors.ts';
import {
  isBorder,
  isGovernance,
  isMachinery,
  isTask,
  isTeamwork,
  isToolDetail,
  type Dialect,
  type DialectEvent,
} from './dialect.ts';

/**
 * Calls of a callback interface: `type` is the name of the callback and `args` its arguments in order, null for those
 * that are absent. A cancelled run calls nothing at its end.
 */
export const callbacks: Dialect = () => (event) => {
  if (isMachinery(event) || isTask(event) || isTeamwork(event)) return [];
  if (isToolDetail(event) || isGovernance(event) || isBorder(event)) return [];
  const { agentId = null, threadId = null } = event;
  switch (event.type) {
    case 'agent.thinking':
      return call('onThinking');
    case 'text.complete':
      return call('onAssistantMessage', event.text);
    case 'tool.execute.start':
      return call('onToolUse', event.toolName, event.args, event.summary);
    case 'tool.summary':
      return call('onToolUseSummary', event.text);
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
