import { isLifecycle, type EventBody } from '../shared/event.ts';
import type { RunRequest } from '../shared/run.ts';

/** An event as scripts take it: a one-letter flag, then JSON without version and number. */
export interface ScriptEvent {
  readonly flagged: string;
  readonly lifecycle: boolean;
}

interface Subject {
  readonly runId: string;
  readonly request: RunRequest;
}

/** What the producer itself has to say about a run, stamped like the worker's events. */
export function scriptEvent(run: Subject, timestamp: string, body: EventBody): ScriptEvent {
  return { flagged: flagged(run, timestamp, body), lifecycle: isLifecycle(body.type) };
}

/** An event without its last brace: the script adds what only the record in Redis knows. */
export function eventStart(
  run: Subject,
  timestamp: string,
  body: { readonly type: EventBody['type'] } & Record<string, unknown>,
): string {
  return flagged(run, timestamp, body).slice(0, -1);
}

function flagged({ runId, request }: Subject, timestamp: string, body: { readonly type: EventBody['type'] }): string {
  const { agent, executionId, thread, sessionId, overrides, node } = request;
  const envelope = {
    runId,
    timestamp,
    agentId: agent,
    ...(executionId !== undefined && { executionId }),
    ...(thread !== undefined && { threadId: thread }),
    ...(sessionId !== undefined && { sessionId }),
    ...(overrides?.background && { background: true }),
    ...(node && { nodeId: node.id }),
  };
  return (isLifecycle(body.type) ? 'L' : 'N') + JSON.stringify({ ...envelope, ...body });
}
