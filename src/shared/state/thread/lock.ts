import type { CancelRequest } from '../../contract/control.ts';
import { RunError } from '../../base/errors.ts';
import { inTime, isUnavailable } from '../errors.ts';
import { lookLater } from '../run/look-later.ts';
import { pairsOf } from '../../base/collections.ts';
import { loadScript, runScript } from '../script.ts';
import { threadKeys, type ThreadKeySpace } from './key-space.ts';
import { manifestFromHash, type OnBusy, type ThreadManifest, type ThreadRef } from '../../contract/thread/thread.ts';
import type { AddJob } from '../run/waits/resume.ts';
import { jobKind } from '../../contract/run.ts';

const enterScript = loadScript(import.meta.url, './enter.lua');
const acquireScript = loadScript(import.meta.url, './acquire.lua');
const suspendScript = loadScript(import.meta.url, './suspend.lua');
const leaveScript = loadScript(import.meta.url, './leave.lua');

/** A run and the thread that it belongs to. */
export interface ThreadRun extends ThreadRef {
  readonly runId: string;
  readonly agentId: string;
}

/** A run that acquires the lock of its thread. */
export interface ThreadClaim extends ThreadRun {
  /** Counts the claims of the run. */
  readonly epoch: number;
}

/** A run that has ended, and leaves its thread. */
export interface EndedRun {
  readonly runId: string;
  /** Its last claim when it ended. A redriven run has a later one, and stays. Undefined: not known. */
  readonly epoch: number | undefined;
}

/** The right to write to a thread. Acquiring the lock again gives a new fence; the store refuses writes with an older one. */
export interface ThreadLock extends ThreadRef {
  readonly runId: string;
  readonly fence: number;
}

/**
 * `ahead` counts the runs that go before it, the lock owner included. `cancel`: the caller has to cancel the lock owner; a repeat
 * answers the same while that run has the lock.
 */
export interface WaitingForLock {
  readonly kind: 'waiting';
  readonly lockOwner: string;
  readonly ahead: number;
  readonly cancel: boolean;
}

/**
 * - turn: it has the lock
 * - refused_busy, refused_suspended: it was not to wait, and the lock owner is running, or suspended
 * - other_agent: the thread belongs to another agent
 * - left: it has left the thread within the last hour and gets no other position
 */
export type Entered =
  | { readonly kind: 'turn' }
  | WaitingForLock
  | { readonly kind: 'refused_busy' | 'refused_suspended'; readonly lockOwner: string }
  | { readonly kind: 'other_agent'; readonly agentId: string }
  | { readonly kind: 'left' };

/**
 * `rolledBack`: another run asked to roll this turn back. Nothing that it writes is kept. `stale`: a later claim of the run has
 * come to acquire the lock.
 */
export type AcquiredLock =
  | {
      readonly kind: 'acquired';
      readonly fence: number;
      readonly manifest: ThreadManifest;
      readonly rolledBack: boolean;
    }
  | Omit<WaitingForLock, 'cancel'>
  | { readonly kind: 'other_agent'; readonly agentId: string }
  | { readonly kind: 'stale' };

/** A thread that a run has locked. */
export interface LockedThread extends ThreadRef {
  readonly lockOwner: string;
  /** The first of those who wait. */
  readonly next?: string | undefined;
  /** The lock owner waits for something outside. */
  readonly suspended: boolean;
  /** The lock owner is to be cancelled for a run that came later. */
  readonly interrupted: boolean;
}

/** The entry of a thread that is due to be checked. `dueAt` is the time that it was found under. */
export interface DueEntry extends ThreadRef {
  readonly dueAt: string;
}

export type DueThread = LockedThread & DueEntry;

/** `unreachable`: due, and on a node of Redis that cannot be asked. `more`: others are due, too. */
export interface DueThreads {
  readonly threads: readonly DueThread[];
  readonly unreachable: readonly (DueEntry & { readonly error: RunError })[];
  readonly more: boolean;
}

/** The error of a run that was not to wait for the lock owner. */
export function refusedIn(
  { threadId }: ThreadRef,
  { kind, lockOwner }: Extract<Entered, { kind: 'refused_busy' | 'refused_suspended' }>,
): RunError {
  return kind === 'refused_busy'
    ? new RunError('concurrent_run', `run ${lockOwner} is running in thread ${threadId}`)
    : new RunError('thread_suspended', `run ${lockOwner} waits for a decision on thread ${threadId}`);
}

/** How the lock owner of a thread is cancelled for this run. */
export function interruptionBy(runId: string): CancelRequest {
  return { drain: false, onPendingApprovals: 'deny', reason: `run ${runId} interrupts it` };
}

/** How long a run that left is known, so that a late repeat of its entry gets no position. */
export const leftMs = 3_600_000;
/** How many of them are known per thread. */
export const maxLeft = 1_000;
/** A thread is listed before a run enters it; a listed thread without a lock owner is only forgotten once it is older than this. */
const settledMs = 300_000;
/** A thread is checked this long after a run entered it or its lock owner was stopped: by then the lock was released, or a process was lost. */
export const lookAfterMs = 15_000;

type WaitReply = readonly [0, string] | readonly [3, string, number, 0 | 1];
type EnterReply = WaitReply | readonly [1] | readonly [2] | readonly [4 | 5, string];
type AcquireReply = WaitReply | readonly [2, number, readonly string[]] | readonly [6];

/**
 * {@link ThreadStore.enter}. `rejoin`: like `queue`, and a run that has left gets a position as well, because it was skipped before
 * it was created.
 */
export async function enterThread(space: ThreadKeySpace, run: ThreadRun, busy: OnBusy | 'rejoin'): Promise<Entered> {
  const atMs = space.clock.now();
  const [onBusy, forgottenBefore] =
    busy === 'rejoin' ? (['queue', Number.MAX_SAFE_INTEGER] as const) : [busy, atMs - leftMs];
  const args = [run.runId, run.agentId, run.threadId, new Date(atMs).toISOString(), onBusy, forgottenBefore];
  const reply = (await listed(space, run, atMs, () =>
    runScript(space.redis, enterScript, threadKeys(space, run), args, { doing: `entry into thread ${run.threadId}` }),
  )) as EnterReply;
  switch (reply[0]) {
    case 0:
      return { kind: 'other_agent', agentId: reply[1] };
    case 1:
      return { kind: 'left' };
    case 2:
      return { kind: 'turn' };
    case 3:
      return { kind: 'waiting', lockOwner: reply[1], ahead: reply[2], cancel: reply[3] === 1 };
    default:
      return { kind: reply[0] === 4 ? 'refused_busy' : 'refused_suspended', lockOwner: reply[1] };
  }
}

/**
 * Acquires the lock for a run that has been claimed; a run without a position gets the last one. The answer has the only fence
 * that counts from now on, and the run is not suspended any more.
 */
export async function acquireThread(space: ThreadKeySpace, run: ThreadClaim): Promise<AcquiredLock> {
  const atMs = space.clock.now();
  const at = new Date(atMs).toISOString();
  const args = [run.runId, run.agentId, run.threadId, at, run.epoch, atMs - leftMs];
  const reply = (await listed(space, run, atMs, () =>
    runScript(space.redis, acquireScript, threadKeys(space, run), args, { doing: `lock of thread ${run.threadId}` }),
  )) as AcquireReply;
  if (reply[0] === 0) return { kind: 'other_agent', agentId: reply[1] };
  if (reply[0] === 3) return { kind: 'waiting', lockOwner: reply[1], ahead: reply[2] };
  if (reply[0] === 6) return { kind: 'stale' };
  const hash: Record<string, string> = Object.fromEntries(pairsOf(reply[2]));
  const rolledBack = hash['rollback'] === run.runId;
  return { kind: 'acquired', fence: reply[1], manifest: manifestFromHash(hash), rolledBack };
}

/**
 * The lists across threads come first: a surplus entry is harmless, a thread that is not listed would never be found again.
 * On one server both are sent together, in this order.
 */
async function listed<T>(
  { redis, keys, cluster }: ThreadKeySpace,
  { tenant, threadId }: ThreadRef,
  atMs: number,
  act: () => Promise<T>,
): Promise<T> {
  const lists = Promise.all([
    redis.zadd(keys.threads(tenant), 'NX', atMs, threadId),
    redis.zadd(keys.threadsEntered, atMs, memberOf({ tenant, threadId })),
    redis.zadd(keys.threadChecks, atMs + lookAfterMs, memberOf({ tenant, threadId })),
  ]);
  if (cluster) await lists;
  const [reply] = await Promise.all([act(), lists]);
  return reply;
}

/** The lock owner waits for something outside and keeps the lock. `fenced`: it is not the lock owner any more. */
export async function suspendThread(space: ThreadKeySpace, lock: ThreadLock): Promise<'ok' | 'fenced'> {
  const { runId, fence } = lock;
  const doing = `suspension in thread ${lock.threadId}`;
  const [manifest = ''] = threadKeys(space, lock);
  const reply = await runScript(space.redis, suspendScript, [manifest], [runId, fence], { doing });
  return reply === 1 ? 'ok' : 'fenced';
}

/** {@link ThreadStore.leave}. */
export async function leaveThread(
  space: ThreadKeySpace,
  thread: ThreadRef,
  { runId, epoch }: EndedRun,
): Promise<{ readonly next?: string }> {
  const args = [runId, space.clock.now(), leftMs, maxLeft, epoch ?? ''];
  const doing = `release of thread ${thread.threadId}`;
  const next = (await runScript(space.redis, leaveScript, threadKeys(space, thread), args, { doing })) as string;
  return next === '' ? {} : { next };
}

const wakeScript = loadScript(import.meta.url, './wake-queued.lua');
/** Runs that ended while they waited and that one call takes out of the wait queue; the reconciler takes the rest. */
const maxSkipped = 1_000;

/**
 * Takes a run that has ended out of its thread, and adds a job for the new lock owner. Again changes nothing: any process that
 * finds an ended lock owner may call it, also late. A run that was redriven since keeps its lock.
 */
export async function releaseToNext(space: ThreadKeySpace, thread: ThreadRef, endedRun: EndedRun, addJob: AddJob) {
  const { redis, keys, clock } = space;
  let leaves = endedRun;
  for (let skipped = 0; skipped < maxSkipped; skipped++) {
    const { next } = await leaveThread(space, thread, leaves);
    if (next === undefined) return;
    const at = new Date(clock.now()).toISOString();
    const doing = `wake of run ${next}`;
    const [segment, queue, kind] = (await runScript(redis, wakeScript, [keys.run(next)], [at], { doing })) as
      | [number, string, string]
      | [];
    if (segment !== undefined)
      return await addJob({ runId: next, segment, queue: queue ?? '', kind: jobKind.parse(kind) });
    // A running one needs no job; one that has ended will never acquire the lock.
    const [status, ended, epoch = 0] = await redis.hmget(keys.run(next), 'status', 'endedAt', 'epoch');
    if (status && !ended) return;
    leaves = { runId: next, epoch: Number(epoch) };
  }
}

/** Some of the locked threads, longest unentered first. */
export async function lockedThreads(space: ThreadKeySpace, limit: number): Promise<readonly LockedThread[]> {
  const members = await space.redis.zrange(space.keys.threadsEntered, 0, String(limit - 1));
  const found = await Promise.all(members.map((member) => readLocked(space, member)));
  return found.filter((thread) => thread !== undefined);
}

/** Has a thread checked soon. Called before its lock owner ends without a worker, which would release the lock. */
export async function lookSoonAtThread({ redis, keys, clock }: ThreadKeySpace, thread: ThreadRef): Promise<void> {
  await redis.zadd(keys.threadChecks, 'XX', clock.now() + lookAfterMs, memberOf(thread));
}

/** Locked threads that are due, longest first. A free one leaves the lists five minutes after the last run entered it. */
export async function dueThreads(space: ThreadKeySpace, limit: number): Promise<DueThreads> {
  const { redis, keys, clock } = space;
  const range = ['-inf', clock.now(), 'WITHSCORES', 'LIMIT', 0, limit] as const;
  const flat = await inTime(redis.zrangebyscore(keys.threadChecks, ...range), 'list of threads that are due');
  const due = pairsOf(flat);
  const unreachable: (DueEntry & { readonly error: RunError })[] = [];
  const look = async (member: string, dueAt: string): Promise<DueThread | undefined> => {
    const locked = await readLocked(space, member);
    if (!locked) await unlist(space, member, dueAt);
    return locked && { ...locked, dueAt };
  };
  const found = await Promise.all(
    due.map(([member, dueAt]) =>
      inTime(look(member, dueAt), `look at thread ${member}`).catch((error: unknown) => {
        if (!isUnavailable(error)) throw error;
        unreachable.push({ ...threadOf(member), dueAt, error });
        return undefined;
      }),
    ),
  );
  return { threads: found.filter((thread) => thread !== undefined), unreachable, more: due.length === limit };
}

/** Sets when threads are checked again, in milliseconds since the epoch, unless a run entered them meanwhile. */
export async function lookAgainAtThreads(
  { redis, keys }: ThreadKeySpace,
  threads: readonly (DueEntry & { readonly nextMs: number })[],
): Promise<void> {
  const again = threads.map((thread) => [memberOf(thread), thread.dueAt, thread.nextMs] as const);
  await inTime(lookLater(redis, keys.threadChecks, again), 'next look at threads');
}

async function unlist({ redis, keys, clock }: ThreadKeySpace, member: string, dueAt: string): Promise<void> {
  const entered = await redis.zscore(keys.threadsEntered, member);
  const dropMs = Number(entered ?? 0) + settledMs;
  if (dropMs > clock.now()) return await lookLater(redis, keys.threadChecks, [[member, dueAt, dropMs]]);
  if (entered !== null) await lookLater(redis, keys.threadsEntered, [[member, entered, undefined]]);
  await lookLater(redis, keys.threadChecks, [[member, dueAt, undefined]]);
}

function memberOf({ tenant, threadId }: ThreadRef): string {
  return `${tenant}:${threadId}`;
}

function threadOf(member: string): ThreadRef {
  const colon = member.indexOf(':');
  return { tenant: member.slice(0, colon), threadId: member.slice(colon + 1) };
}

async function readLocked({ redis, keys }: ThreadKeySpace, member: string): Promise<LockedThread | undefined> {
  const { tenant, threadId } = threadOf(member);
  const [[lockOwner, suspendedBy, interrupted], [next]] = await Promise.all([
    redis.hmget(keys.thread(tenant, threadId, 'manifest'), 'lockOwner', 'suspendedBy', 'interrupted'),
    redis.zrange(keys.thread(tenant, threadId, 'waiters'), 0, '0'),
  ]);
  if (!lockOwner) return undefined;
  return {
    tenant,
    threadId,
    lockOwner,
    next,
    suspended: suspendedBy === lockOwner,
    interrupted: interrupted === lockOwner,
  };
}
