import { eventVersion, type EventBody } from './event.ts';
import { newNonce } from './ids.ts';
import type { JournalEntry } from './journal.ts';
import { loadScript, runScript, type Keys, type RedisConnection } from './redis.ts';
import { jobKind, runRequest, type JobKind, type RunRequest } from './run.ts';

const script = loadScript(import.meta.url, './lua/resume.lua');

/** Where runs are kept, and where their events go. */
export interface RunPlace {
  readonly redis: RedisConnection;
  readonly keys: Keys;
  /** Keys of different runs live on different nodes: no script may touch two runs, and live channels are sharded. */
  readonly cluster: boolean;
  /** Events kept per run for replay, about. */
  readonly eventLogMax: number;
}

/** What ends the wait. */
export interface WaitEnd {
  /** In words, for `run.resumed`. */
  readonly summary: string;
  /** Into the journal, in the same step. */
  readonly entries: readonly JournalEntry[];
  /** Only when the run is still at this segment, so that a decision never meets a later wait. Absent: at any. */
  readonly segment?: number;
  /** Milliseconds since the epoch. */
  readonly atMs: number;
}

/** Where the new job of the run belongs. */
export interface ResumedRun {
  readonly queue: string;
  readonly segment: number;
  readonly kind: JobKind;
}

/**
 * Ends the wait of a suspended run: it is queued at its next segment, with `run.resumed` in its log, and its timer is
 * gone. The caller adds the job; until then the reconciler would. Undefined when the run is not suspended (any more).
 * Errors of Redis come through as they are; after one it is unknown whether the run was resumed.
 */
export async function resumeRun(place: RunPlace, runId: string, end: WaitEnd): Promise<ResumedRun | undefined> {
  const { redis, keys, cluster, eventLogMax } = place;
  const [status, request] = await redis.hmget(keys.run(runId), 'status', 'request');
  if (status !== 'suspended' || !request) return undefined;
  const at = new Date(end.atMs).toISOString();
  const event = resumedEvent(runId, runRequest.parse(JSON.parse(request)), at, end.summary);
  const own = [keys.run(runId), keys.journal(runId), keys.events(runId)];
  const reply = (await runScript(redis, script, cluster ? own : [...own, keys.lifecycle], [
    newNonce(),
    end.segment ?? '',
    at,
    `L${event}`,
    eventLogMax,
    keys.live(runId),
    keys.firehose,
    cluster ? 'SPUBLISH' : 'PUBLISH',
    ...end.entries.map((entry) => JSON.stringify(entry)),
  ])) as readonly [0] | readonly [1, number, number, string, string];
  if (reply[0] === 0) return undefined;
  const [, segment, seq, queue, kind] = reply;
  if (cluster) {
    // The lifecycle stream belongs to no run, so in a Cluster the script cannot reach it.
    const json = `{"v":${eventVersion},"sequenceNumber":${seq},${event.slice(1)}`;
    await redis.xadd(keys.lifecycle, 'MAXLEN', '~', 100_000, '*', 'e', json);
  }
  // A timer that outlived its wait would end the next one. No job exists yet, so there is no next one.
  await redis.zrem(keys.timers, runId);
  return { queue, segment, kind: jobKind.parse(kind) };
}

/** The event's JSON without version and number, which the script gives. */
function resumedEvent(runId: string, request: RunRequest, timestamp: string, summary: string): string {
  const { agent, executionId, thread, sessionId, overrides, node } = request;
  const body: EventBody = { type: 'run.resumed', directiveSummary: summary };
  return JSON.stringify({
    runId,
    timestamp,
    agentId: agent,
    ...(executionId !== undefined && { executionId }),
    ...(thread !== undefined && { threadId: thread }),
    ...(sessionId !== undefined && { sessionId }),
    ...(overrides?.background && { background: true }),
    ...(node && { nodeId: node.id }),
    ...body,
  });
}
