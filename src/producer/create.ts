import { canonicalJson } from '../shared/canonical-json.ts';
import { newRunId, runIdForExecution, sha256 } from '../shared/ids.ts';
import { loadScript, runScript, type RedisConnection } from '../shared/redis.ts';
import type { RunRequest, RunStatus } from '../shared/run.ts';
import { scriptEvent, type ScriptEvent } from './events.ts';
import type { Link } from './link.ts';
import { addLifecycle, publishCommand } from './layout.ts';

const script = loadScript(import.meta.url, './lua/create.lua');

/** The queue of requests that name none. */
export const defaultQueue = 'runs';
/** Runs that one call of the script creates; large enough to save round trips, small enough to hold nobody up. */
const groupSize = 25;

/** A run that is about to be created. The nonce makes sending it twice the same as once. */
export interface NewRun {
  readonly runId: string;
  readonly tenant: string;
  readonly kind: 'agent.turn' | 'node';
  readonly queue: string;
  readonly request: RunRequest;
  readonly bodyHash: string;
  readonly nonce: string;
}

export type Created =
  | { readonly kind: 'created' | 'attached'; readonly status: RunStatus; readonly segment: number }
  | { readonly kind: 'conflict' };

export function newRun(request: RunRequest, tenant: string, nonce: string): NewRun {
  const { executionId, ...body } = request;
  return {
    runId: executionId === undefined ? newRunId(Date.now()) : runIdForExecution(tenant, executionId),
    tenant,
    kind: request.node ? 'node' : 'agent.turn',
    queue: request.queue ?? defaultQueue,
    request,
    bodyHash: sha256(canonicalJson(body)),
    nonce,
  };
}

/** Creates runs of one tenant, each unless it is there already. Answers in order; throws when Redis fails for any. */
export async function createRuns(
  runs: readonly NewRun[],
  tenant: string,
  link: Link,
  redis: RedisConnection,
): Promise<readonly Created[]> {
  if (runs.length === 0) return [];
  const now = Date.now();
  const listed = listRuns(runs, tenant, now, link, redis);
  // On one server all commands leave together, in this order. In a Cluster another node may refuse the listing that
  // this one would have accepted, and a run that nobody lists would never be found again.
  if (link.cluster) await listed;
  const groups: (readonly NewRun[])[] = [];
  const size = link.cluster ? 1 : groupSize;
  for (let start = 0; start < runs.length; start += size) groups.push(runs.slice(start, start + size));
  const [replies] = await Promise.all([
    Promise.all(groups.map((group) => createGroup(group, now, link, redis))),
    listed,
  ]);
  return replies.flat();
}

/** The sets across runs: open runs for the reconciler, the tenant's runs for listing. Never moves a run that is there. */
async function listRuns(
  runs: readonly NewRun[],
  tenant: string,
  now: number,
  link: Link,
  redis: RedisConnection,
): Promise<void> {
  const members = runs.flatMap((run) => [now, run.runId]);
  await Promise.all([
    redis.zadd(link.keys.open, 'NX', ...members),
    redis.zadd(link.keys.index(tenant), 'NX', ...members),
  ]);
}

async function createGroup(
  runs: readonly NewRun[],
  now: number,
  link: Link,
  redis: RedisConnection,
): Promise<readonly Created[]> {
  const { keys, cluster, settings } = link;
  const at = new Date(now).toISOString();
  const own = runs.flatMap(({ runId }) => [keys.run(runId), keys.journal(runId), keys.events(runId)]);
  const replies = (await runScript(redis, script, cluster ? own : [...own, keys.lifecycle], [
    settings.eventLogMax,
    keys.firehose,
    publishCommand(link),
    runs[0]?.tenant ?? '',
    at,
    ...runs.flatMap((run) => argumentsOf(run, at, link)),
  ])) as readonly ([0 | 1, RunStatus, string] | [2])[];
  if (cluster) {
    for (const [i, run] of runs.entries()) {
      const events = firstEvents(run, at);
      if (replies[i]?.[0] === 0) await addLifecycle(link, redis, events, events.length);
    }
  }
  return replies.map(([code, status = 'queued', segment]) =>
    code === 2 ? { kind: 'conflict' } : { kind: code === 0 ? 'created' : 'attached', status, segment: Number(segment) },
  );
}

/** `agent` and `thread` stand beside the request so that listing can filter without reading it. */
function argumentsOf(run: NewRun, at: string, { keys }: Link): (string | number)[] {
  const { runId, kind, queue, request, bodyHash, nonce } = run;
  const events = firstEvents(run, at).map((event) => event.flagged);
  const record = [runId, queue, JSON.stringify(request), request.agent, request.thread ?? '', kind];
  return [nonce, bodyHash, keys.live(runId), ...record, events.length, ...events];
}

function firstEvents(run: NewRun, at: string): readonly ScriptEvent[] {
  const queued = scriptEvent(run, at, { type: 'run.queued', kind: run.kind, queuedAt: at });
  return run.request.executionId === undefined
    ? [queued]
    : [queued, scriptEvent(run, at, { type: 'execution.started' })];
}
