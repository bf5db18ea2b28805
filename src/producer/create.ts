import { newRunId, runIdForExecution, sha256 } from '../shared/ids.ts';
import { loadScript, runScript, type RedisConnection } from '../shared/redis.ts';
import type { JobKind, RunRequest, RunStatus } from '../shared/run.ts';
import { scriptEvent, type ScriptEvent } from './events.ts';
import type { Link } from './link.ts';
import { addLifecycle, eventTargets, scriptKeys } from './layout.ts';

const script = loadScript(import.meta.url, './lua/create.lua');

/** A run that is about to be created. The nonce makes sending it twice the same as once. */
export interface NewRun {
  readonly runId: string;
  readonly tenant: string;
  readonly kind: JobKind;
  readonly queue: string;
  readonly request: RunRequest;
  readonly bodyHash: string;
  readonly nonce: string;
  readonly createdAtMs: number;
}

export type Created =
  | { readonly kind: 'created' | 'attached'; readonly status: RunStatus; readonly segment: number }
  | { readonly kind: 'conflict' };

/** The queue of requests that name none. */
export const defaultQueue = 'runs';

export function newRun(request: RunRequest, tenant: string, nowMs: number, nonce: string): NewRun {
  const { executionId, ...body } = request;
  return {
    runId: executionId === undefined ? newRunId(nowMs) : runIdForExecution(tenant, executionId),
    tenant,
    kind: 'agent.turn',
    queue: request.queue ?? defaultQueue,
    request,
    bodyHash: sha256(canonicalJson(body)),
    nonce,
    createdAtMs: nowMs,
  };
}

/** Creates one run, or says that it is there already. */
export async function createRun(link: Link, redis: RedisConnection, run: NewRun): Promise<Created> {
  const listed = listRuns(link, redis, [run]);
  // Elsewhere than in a Cluster all three commands leave together, in this order. There another node may refuse the
  // listing that this one would have accepted, and a run that nobody lists would never be found again.
  if (link.cluster) await listed;
  const [reply] = await Promise.all([
    runScript(redis, script, scriptKeys(link, run.runId), scriptArgs(link, run)),
    listed,
  ]);
  return await settle(link, redis, run, reply);
}

/** Creates many runs in two round trips. Answers in order; throws when Redis fails for any of them. */
export async function createRuns(
  link: Link,
  redis: RedisConnection,
  runs: readonly NewRun[],
): Promise<readonly Created[]> {
  await listRuns(link, redis, runs);
  const replies = link.cluster
    ? await Promise.all(runs.map((run) => runScript(redis, script, scriptKeys(link, run.runId), scriptArgs(link, run))))
    : await pipelined(link, redis, runs);
  return await Promise.all(runs.map((run, index) => settle(link, redis, run, replies[index])));
}

/** The script changes nothing when it gets the same call again, so the whole pipeline may be repeated once it is loaded. */
async function pipelined(link: Link, redis: RedisConnection, runs: readonly NewRun[]): Promise<unknown[]> {
  const send = async () => {
    const pipeline = redis.pipeline();
    for (const run of runs) {
      const keys = scriptKeys(link, run.runId);
      pipeline.evalsha(script.sha, keys.length, ...keys, ...scriptArgs(link, run));
    }
    return (await pipeline.exec()) ?? [];
  };
  let results = await send();
  if (results.some(([error]) => error?.message.startsWith('NOSCRIPT'))) {
    await redis.script('LOAD', script.source);
    results = await send();
  }
  return results.map(([error, reply]) => {
    if (error) throw error;
    return reply;
  });
}

/** The sets across runs: open runs for the reconciler, the tenant's runs for listing. Never moves a run that is there. */
async function listRuns(link: Link, redis: RedisConnection, runs: readonly NewRun[]): Promise<void> {
  const [first] = runs;
  if (!first) return;
  const members = runs.flatMap((run) => [run.createdAtMs, run.runId]);
  await Promise.all([
    redis.zadd(link.keys.open, 'NX', ...members),
    redis.zadd(link.keys.index(first.tenant), 'NX', ...members),
  ]);
}

/** `agent` and `thread` stand beside the request so that listing can filter without reading it. */
function scriptArgs(link: Link, run: NewRun): (string | number)[] {
  const { runId, tenant, kind, queue, request, bodyHash, nonce } = run;
  const at = new Date(run.createdAtMs).toISOString();
  const record = [runId, tenant, kind, queue, JSON.stringify(request), at, request.agent, request.thread ?? ''];
  return [nonce, bodyHash, ...eventTargets(link, runId), ...record, ...firstEvents(run).map((event) => event.flagged)];
}

function firstEvents(run: NewRun): ScriptEvent[] {
  const at = new Date(run.createdAtMs).toISOString();
  const queued = scriptEvent(run, at, { type: 'run.queued', kind: run.kind, queuedAt: at });
  return run.request.executionId === undefined
    ? [queued]
    : [queued, scriptEvent(run, at, { type: 'execution.started' })];
}

async function settle(link: Link, redis: RedisConnection, run: NewRun, reply: unknown): Promise<Created> {
  const [code, status, segment] = reply as [0 | 1, RunStatus, string] | [2, undefined, undefined];
  if (code === 2) return { kind: 'conflict' };
  if (code === 0 && link.cluster) await addLifecycle(link, redis, firstEvents(run), firstEvents(run).length);
  return { kind: code === 0 ? 'created' : 'attached', status, segment: Number(segment) };
}

/** JSON with sorted keys, so that the same request in another order of fields is the same request. */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_, item: unknown) =>
    item !== null && typeof item === 'object' && !Array.isArray(item)
      ? Object.fromEntries(Object.entries(item).sort(([a], [b]) => (a < b ? -1 : 1)))
      : item,
  );
}
