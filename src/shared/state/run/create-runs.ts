import { canonicalJson, jsonText } from '../../base/json.ts';
import { listedParentOf, listedRequestOf } from './listed-record.ts';
import { nextDeadlineOf } from '../../contract/deadline.ts';
import { newRunId, runIdForExecution, sha256 } from '../../base/ids.ts';
import { settledMs } from './open-runs.ts';
import type { KeySpace } from '../keys.ts';
import { defaultQueue } from '../../contract/queues.ts';
import {
  loadScript,
  runScript,
  publishCommand,
  scriptEvent,
  type RunKeySpace,
  stampOf,
  recordTtlS,
} from '../script.ts';
import { workOf, type JobKind, type Lineage, type RunRequest, type RunStatus } from '../../contract/run.ts';
import { RunError } from '../../base/errors.ts';

const script = loadScript(import.meta.url, './create.lua');

/** Runs that one call of the script creates: large enough to save round trips, small enough to delay no other client of Redis. */
const groupSize = 25;

/** After a pause of this length a process lists its runs again: entries without a record are removed after a minute. */
const lateMs = 30_000;

/** A run that is about to be created. The nonce makes sending it twice the same as once. */
export interface NewRun {
  readonly runId: string;
  readonly tenant: string;
  readonly kind: Exclude<JobKind, 'resume' | 'postrun'>;
  readonly queue: string;
  readonly request: RunRequest;
  /** The run that asked for it. */
  readonly parent?: Lineage;
  /** The id of the request that it was asked for with. It is no part of what was asked. */
  readonly requestId?: string | undefined;
  readonly bodyHash: string;
  readonly nonce: string;
}

export type Created =
  | { readonly kind: 'created' | 'attached'; readonly status: RunStatus; readonly segment: number }
  | { readonly kind: 'conflict' };

export function newRun(request: RunRequest, caller: Pick<NewRun, 'tenant' | 'requestId'>, nonce: string): NewRun {
  const { tenant, requestId } = caller;
  const { executionId, ...body } = request;
  return {
    runId: executionId === undefined ? newRunId(Date.now()) : runIdForExecution(tenant, executionId),
    tenant,
    kind: kindOf(request),
    queue: queueOf(request),
    request,
    requestId,
    bodyHash: sha256(canonicalJson(body)),
    nonce,
  };
}

/** Where a request belongs. */
export function queueOf({ queue = defaultQueue }: Pick<RunRequest, 'queue'>): string {
  return queue;
}

function kindOf(request: RunRequest): NewRun['kind'] {
  const { kind } = workOf(request);
  if (kind === 'node' || kind === 'task') return kind;
  return request.chat ? 'chat.turn' : 'agent.turn';
}

/** Creates runs of one tenant and request, each unless it is there already. Answers in order; throws when Redis fails for any. */
export async function createRuns(runs: readonly NewRun[], tenant: string, space: RunKeySpace): Promise<Created[]> {
  if (runs.length === 0) return [];
  const [now, begunAt] = [Date.now(), performance.now()];
  const listed = listRuns(runs, tenant, now, space);
  // On one server all commands are sent together, in this order. In a Cluster another node may refuse the listing while this one
  // accepts the run, and a run that is not listed would never be found again.
  if (space.cluster) await listed;
  const groups: (readonly NewRun[])[] = [];
  const size = space.cluster ? 1 : groupSize;
  for (let start = 0; start < runs.length; start += size) groups.push(runs.slice(start, start + size));
  const [replies] = await Promise.all([Promise.all(groups.map((group) => createGroup(group, now, space))), listed]);
  const created = replies.flat();
  const isLate = performance.now() - begunAt > lateMs;
  const again = runs.filter((run, i) => isNew(created[i]) && (isLate || mayBeListed(run)));
  if (again.length > 0) await listRuns(again, tenant, now, space);
  return created;
}

/**
 * May an earlier try have left an entry? The reconciler removes an entry without a record, see `forgetOpen`, so such a run is
 * listed again afterwards. An id that was made for this call had no earlier try.
 */
function mayBeListed({ request, parent }: NewRun): boolean {
  return request.executionId !== undefined || parent !== undefined;
}

function isNew(created: Created | undefined): boolean {
  return created?.kind === 'created' && created.status === 'queued';
}

/** The sets across runs: open runs for the reconciler, the tenant's runs for listing, deadlines. Never moves a run that is there. */
async function listRuns(runs: readonly NewRun[], tenant: string, now: number, { keys, redis }: RunKeySpace) {
  const members = runs.flatMap((run) => [now, run.runId]);
  const createdAt = new Date(now).toISOString();
  const deadlines = runs.flatMap(({ runId, request }) => {
    const at = nextDeadlineOf({ createdAt, epoch: 0, request });
    return at === undefined ? [] : [at, runId];
  });
  await Promise.all([
    redis.zadd(keys.open, 'NX', ...members),
    redis.zadd(keys.checks, 'NX', ...runs.flatMap(({ runId }) => [now + settledMs, runId])),
    redis.sadd(keys.openOf(tenant), ...runs.map(({ runId }) => runId)),
    redis.zadd(keys.index(tenant), 'NX', ...members),
    deadlines.length > 0 && redis.zadd(keys.deadlines, 'NX', ...deadlines),
  ]);
}

async function createGroup(runs: readonly NewRun[], now: number, space: RunKeySpace): Promise<readonly Created[]> {
  const { keys, lifecycle, redis, eventLogMax } = space;
  const at = new Date(now).toISOString();
  const parts = [keys.run, keys.journal, keys.events, keys.claim];
  const own = runs.flatMap(({ runId }) => parts.map((key) => key(runId)));
  const { runId: firstId = '', tenant = '', requestId = '' } = runs[0] ?? {};
  const each = runs.flatMap((run) => argumentsOf(run, at, space));
  const args = [eventLogMax, keys.firehose, publishCommand(space), tenant, at, requestId, ...each];
  const all = [...own, lifecycle.keyOf(firstId)];
  const doing = 'creation of runs';
  const replies = (await runScript(redis, script, all, args, { doing })) as readonly (
    | [0 | 1, RunStatus, string]
    | [2]
  )[];
  for (const [i, run] of runs.entries()) if (replies[i]?.[0] === 0) await lifecycle.publish(run.runId);
  return replies.map(([code, status = 'queued', segment]) =>
    code === 2 ? { kind: 'conflict' } : { kind: code === 0 ? 'created' : 'attached', status, segment: Number(segment) },
  );
}

/** `agent` and `thread` are fields beside the request so that listing can filter without reading it. */
function argumentsOf(run: NewRun, at: string, { keys }: RunKeySpace): (string | number)[] {
  const { runId, kind, queue, request, bodyHash, nonce, parent } = run;
  const events = firstEvents(run, at);
  const record = [
    runId,
    queue,
    jsonText(request),
    request.agent,
    request.thread ?? '',
    kind,
    parent ? jsonText(parent) : '',
    parent?.runId ?? '',
    jsonText(listedRequestOf(request)),
    parent ? jsonText(listedParentOf(parent)) : '',
  ];
  return [nonce, bodyHash, keys.live(runId), ...record, events.length, ...events];
}

function firstEvents(run: NewRun, at: string): readonly string[] {
  const stamp = { ...stampOf(run), timestamp: at };
  const queued = scriptEvent({ ...stamp, type: 'run.queued', kind: run.kind, queuedAt: at });
  if (run.request.executionId === undefined) return [queued];
  return [queued, scriptEvent({ ...stamp, type: 'execution.started' })];
}

const claimScript = loadScript(import.meta.url, './claim-request.lua');

/** Longer than a producer takes from here to the record of the run; it may die in between. */
const claimedMs = 300_000;

/**
 * - free: the run does not exist, and only this request may create it
 * - created: the run exists, made by this request
 * - steering: the message is meant for the run `listener`; `delivered` whether its inbox has it
 */
export type ClaimedRequest =
  | { readonly kind: 'free' | 'created' }
  | { readonly kind: 'steering'; readonly listener: string; readonly delivered: boolean };

/**
 * Takes the execution id of a request, before anything is done for it that others can see: no script reaches both the thread and
 * the record of the run. Throws `idempotency_conflict` for the id of another request.
 */
export async function claimRequest(run: NewRun, { keys, redis }: KeySpace): Promise<ClaimedRequest> {
  const { runId, request, bodyHash } = run;
  // An id that was made for this request belongs to no other.
  if (request.executionId === undefined) return { kind: 'free' };
  const own = [keys.run(runId), keys.claim(runId)];
  const doing = 'claim of an execution id';
  const reply = (await runScript(redis, claimScript, own, [bodyHash, claimedMs], { doing })) as
    | [0 | 1 | 2]
    | [3, string, 0 | 1];
  if (reply[0] === 2) throw usedBefore(request.executionId);
  if (reply[0] === 3) return { kind: 'steering', listener: reply[1], delivered: reply[2] === 1 };
  return { kind: reply[0] === 0 ? 'free' : 'created' };
}

/**
 * Notes which run gets the message of a request: `meant` before it is sent, so that a repeat asks the same run, and `delivered`
 * once its inbox has it. `late`: that run does not read it any more.
 */
export async function noteListener(
  run: NewRun,
  listener: string,
  how: 'meant' | 'delivered' | 'late',
  space: Pick<RunKeySpace, 'keys' | 'redis' | 'resultTtlS'>,
): Promise<void> {
  const { keys, redis } = space;
  const key = keys.claim(run.runId);
  if (how === 'late') return void (await redis.hdel(key, 'listener', 'delivered'));
  const fields = { bodyHash: run.bodyHash, listener, delivered: how === 'delivered' ? 1 : 0 };
  const ttlS = recordTtlS(space, run.request.executionId !== undefined, run.request.store);
  await redis.multi().hset(key, fields).expire(key, ttlS).exec();
}

/** The request was refused, and its id is free again. */
export async function releaseRequest({ runId }: Pick<NewRun, 'runId'>, { keys, redis }: KeySpace): Promise<void> {
  await redis.del(keys.claim(runId));
}

export function usedBefore(executionId: string | undefined): RunError {
  return new RunError('idempotency_conflict', `execution id ${executionId} was used before with another request`);
}
