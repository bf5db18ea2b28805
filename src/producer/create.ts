import type { EventBody } from '../shared/event.ts';
import { newNonce, newRunId, runIdForExecution, sha256 } from '../shared/ids.ts';
import { loadScript, runScript, type RedisConnection } from '../shared/redis.ts';
import { recordToHash, runRecordVersion, type RunRecord, type RunRequest, type RunStatus } from '../shared/run.ts';
import { scriptEvent, type ScriptEvent } from './events.ts';
import type { Link } from './link.ts';
import { addLifecycle, eventTargets, scriptKeys } from './layout.ts';

const script = loadScript(import.meta.url, './lua/create.lua');

/** A run that is about to be created. The nonce makes sending it twice the same as once. */
export interface NewRun {
  readonly record: RunRecord;
  readonly bodyHash: string;
  readonly nonce: string;
  readonly events: readonly ScriptEvent[];
  readonly createdAtMs: number;
}

export type Created =
  | { readonly kind: 'created' | 'attached'; readonly status: RunStatus; readonly segment: number }
  | { readonly kind: 'conflict' };

/** The queue of requests that name none. */
export const defaultQueue = 'runs';

export function newRun(request: RunRequest, tenant: string, nowMs: number): NewRun {
  const { executionId, ...body } = request;
  const at = new Date(nowMs).toISOString();
  const kind = 'agent.turn';
  const runId = executionId === undefined ? newRunId(nowMs) : runIdForExecution(tenant, executionId);
  const event = (fact: EventBody) => scriptEvent({ runId, request }, at, fact);
  const events = [event({ type: 'run.queued', kind, queuedAt: at })];
  if (executionId !== undefined) events.push(event({ type: 'execution.started' }));
  const record: RunRecord = {
    v: runRecordVersion,
    runId,
    tenant,
    kind,
    status: 'queued',
    request,
    queue: request.queue ?? defaultQueue,
    segment: 0,
    createdAt: at,
    updatedAt: at,
    lastSequence: events.length,
    epoch: 0,
    crashes: 0,
    steps: 0,
    costMicrocents: 0,
    attempts: [],
    pending: [],
  };
  return { record, bodyHash: sha256(canonicalJson(body)), nonce: newNonce(), events, createdAtMs: nowMs };
}

/** Creates one run, or says that it is there already. */
export async function createRun(link: Link, redis: RedisConnection, run: NewRun): Promise<Created> {
  const listed = listRuns(link, redis, [run]);
  // Elsewhere than in a Cluster all three commands leave together, in this order. There another node may refuse the
  // listing that this one would have accepted, and a run that nobody lists would never be found again.
  if (link.cluster) await listed;
  const [reply] = await Promise.all([
    runScript(redis, script, scriptKeys(link, run.record.runId), scriptArgs(link, run)),
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
    ? await Promise.all(
        runs.map((run) => runScript(redis, script, scriptKeys(link, run.record.runId), scriptArgs(link, run))),
      )
    : await pipelined(link, redis, runs);
  return await Promise.all(runs.map((run, index) => settle(link, redis, run, replies[index])));
}

/** The script changes nothing when it gets the same call again, so the whole pipeline may be repeated once it is loaded. */
async function pipelined(link: Link, redis: RedisConnection, runs: readonly NewRun[]): Promise<unknown[]> {
  const send = async () => {
    const pipeline = redis.pipeline();
    for (const run of runs) {
      const keys = scriptKeys(link, run.record.runId);
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
  const members = runs.flatMap((run) => [run.createdAtMs, run.record.runId]);
  await Promise.all([
    redis.zadd(link.keys.open, 'NX', ...members),
    redis.zadd(link.keys.index(first.record.tenant), 'NX', ...members),
  ]);
}

function scriptArgs(link: Link, run: NewRun): (string | number)[] {
  const { agent, thread } = run.record.request;
  // `agent` and `thread` stand beside the record so that listing can filter without reading the whole request.
  const fields = Object.entries({
    ...recordToHash(run.record),
    owner: '',
    held: '0',
    agent,
    ...(thread !== undefined && { thread }),
  }).flat();
  const targets = eventTargets(link, run.record.runId);
  return [run.nonce, run.bodyHash, ...targets, fields.length, ...fields, ...run.events.map((event) => event.flagged)];
}

async function settle(link: Link, redis: RedisConnection, run: NewRun, reply: unknown): Promise<Created> {
  const [code, status, segment] = reply as [0 | 1, RunStatus, string] | [2, undefined, undefined];
  if (code === 2) return { kind: 'conflict' };
  if (code === 0) await addLifecycle(link, redis, run.events, run.events.length);
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
