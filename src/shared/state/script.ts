import { isLifecycle, type EventBody } from '../contract/event.ts';
import { jsonText } from '../base/json-text.ts';
import type { RunPlace } from './run-place.ts';
import type { Lineage, RunRequest } from '../contract/run.ts';

interface Subject {
  readonly runId: string;
  readonly request: RunRequest;
  readonly parent?: Lineage | undefined;
}

/**
 * What is said about a run that no worker holds, stamped like the worker's own events. As scripts take it: a one-letter flag,
 * then JSON without version and number.
 */
export function scriptEvent(run: Subject, timestamp: string, body: EventBody): string {
  return flagged(run, timestamp, body);
}

/** An event without its last brace: the script adds what only the record in Redis knows. */
export function eventStart(
  run: Subject,
  timestamp: string,
  body: { readonly type: EventBody['type'] } & Record<string, unknown>,
): string {
  return flagged(run, timestamp, body).slice(0, -1);
}

function flagged(run: Subject, timestamp: string, body: { readonly type: EventBody['type'] }): string {
  return (isLifecycle(body.type) ? 'L' : 'N') + jsonText({ ...stampOf(run, timestamp), ...body });
}

/** What every event of a run says about it, whoever writes it. */
export function stampOf({ runId, request, parent }: Subject, timestamp: string) {
  const { agent, executionId, thread, sessionId, overrides, node } = request;
  return {
    runId,
    timestamp,
    agentId: agent,
    ...(executionId !== undefined && { executionId }),
    ...(thread !== undefined && { threadId: thread }),
    ...(sessionId !== undefined && { sessionId }),
    ...(overrides?.background && { background: true }),
    ...(node && { nodeId: node.id }),
    ...(parent && { parentRunId: parent.runId, depth: parent.depth }),
  };
}

export function publishCommand({ cluster }: Pick<RunPlace, 'cluster'>): 'PUBLISH' | 'SPUBLISH' {
  return cluster ? 'SPUBLISH' : 'PUBLISH';
}
