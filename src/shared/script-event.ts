import { eventVersion, isLifecycle, type EventBody } from './event.ts';
import { jsonText } from './json-text.ts';
import type { RunPlace } from './run-place.ts';
import type { Lineage, RunRequest } from './run.ts';

/** An event as scripts take it: a one-letter flag, then JSON without version and number. */
export interface ScriptEvent {
  readonly flagged: string;
  readonly lifecycle: boolean;
}

interface Subject {
  readonly runId: string;
  readonly request: RunRequest;
  readonly parent?: Lineage | undefined;
}

/** What is said about a run that no worker holds, stamped like the worker's own events. */
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

/** In a Cluster: adds lifecycle events to their stream after the script that wrote them. Elsewhere the script did it. */
export async function addLifecycle(
  { cluster, keys, redis }: Pick<RunPlace, 'cluster' | 'keys' | 'redis'>,
  events: readonly ScriptEvent[],
  lastSequence: number,
): Promise<void> {
  if (!cluster) return;
  for (const [index, event] of events.entries()) {
    if (!event.lifecycle) continue;
    const number = lastSequence - events.length + index + 1;
    const json = `{"v":${eventVersion},"sequenceNumber":${number},${event.flagged.slice(2)}`;
    await redis.xadd(keys.lifecycle, 'MAXLEN', '~', 100_000, '*', 'e', json);
  }
}
