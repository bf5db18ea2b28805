import {
  type NewRun,
  claimRequest,
  noteListener,
  releaseRequest,
  type ClaimedRequest,
} from '../../../shared/state/run/create-runs.ts';
import { stopRuns } from '../../../shared/state/run/children/children.ts';
import { assertNever, RunError } from '../../../shared/base/errors.ts';
import {
  enterThread as enter,
  interruptionBy,
  refusedIn,
  type Entered,
  releaseToNext,
} from '../../../shared/state/thread/lock.ts';
import type { OnBusy } from '../../../shared/contract/thread/thread.ts';
import { forgetOpen } from '../../../shared/state/run/open-runs.ts';
import { familyPorts } from '../cancel.ts';
import { runStatus, type RunStatus } from '../../../shared/contract/run.ts';
import { followUpId, steerRun } from '../../../shared/state/run/control/inbox.ts';
import { admitThread } from './admission.ts';
import type { Connected } from '../client-core.ts';

/** The run that a request steers: it gets the input as a message. */
export interface SteeredRun {
  readonly runId: string;
  readonly status: RunStatus;
}

/** `waits`: another run has the lock of its thread; its release queues this one. */
export type Arrived =
  | { readonly kind: 'steered'; readonly run: SteeredRun }
  | { readonly kind: 'entered'; readonly waits: boolean };

/**
 * Steers the run that has the thread, or enters the wait queue of the thread, before the run is created. A refused request leaves
 * nothing behind. Throws what `enterThread` throws, `idempotency_conflict`, and `queue_full` for a run whose inbox is full and for a
 * tenant with too many threads. A delayed run enters the wait queue when its delay is over.
 */
export async function arrive(run: NewRun, at: Connected): Promise<Arrived> {
  const { core, redis } = at;
  const { thread: threadId, onBusy, delayMs = 0 } = run.request;
  if (threadId === undefined) return { kind: 'entered', waits: false };
  const admit = async () =>
    await admitThread(core.threadKeySpace(redis), { tenant: run.tenant, threadId }, core.settings.maxThreadsPerTenant);
  if (delayMs > 0) {
    await admit();
    return { kind: 'entered', waits: false };
  }
  const claimed = await claimRequest(run, { keys: core.keys, redis });
  try {
    const steers = onBusy === 'steer' && claimed.kind !== 'created';
    const steered = steers ? await steer(run, threadId, claimed, at) : undefined;
    if (steered) return { kind: 'steered', run: steered };
    if (claimed.kind !== 'created') await admit();
    return { kind: 'entered', waits: await enterThread(run, threadId, at) };
  } catch (error) {
    if (claimed.kind === 'free' && isRefusal(error)) await releaseRequest(run, { keys: core.keys, redis });
    throw error;
  }
}

/** The request was refused. After a failure of Redis it is unknown what took effect, so a repeat must find its traces. */
export function isRefusal(error: unknown): error is RunError {
  return error instanceof RunError && error.code !== 'queue_unavailable' && error.code !== 'internal';
}

/**
 * Enters the wait queue of the thread before the run is created, so that the order of acceptance is the order of turns. Answers
 * true when the run has to wait: the lock owner queues it. Also when it was skipped before it was created: {@link lookAgain} lets it
 * rejoin.
 * Throws `validation` for the thread of another agent, `concurrent_run` and `thread_suspended` where it was not to wait.
 */
async function enterThread(run: NewRun, threadId: string, at: Connected): Promise<boolean> {
  const { agent: agentId } = run.request;
  const entered = await enterQueue(run, threadId, at);
  switch (entered.kind) {
    case 'turn':
      return false;
    case 'waiting':
    case 'left':
      return true;
    case 'refused_busy':
    case 'refused_suspended':
      throw refusedIn({ tenant: run.tenant, threadId }, entered);
    case 'other_agent':
      throw new RunError('validation', `thread ${threadId} belongs to agent ${entered.agentId}, not to ${agentId}`);
    default:
      return assertNever(entered);
  }
}

/**
 * Looks up the position of a waiting run once it is created, and only now interrupts the lock owner for it: a release skips a run
 * that is not created yet, and then it rejoins here. Answers true when it has the lock: then no other process queues it.
 */
export async function lookAgain(run: NewRun, at: Connected): Promise<boolean> {
  const { runId, request } = run;
  if (request.thread === undefined) return false;
  const found = await enterQueue(run, request.thread, at);
  // Before it is acknowledged, so that no later run goes before it.
  const entered = found.kind === 'left' ? await enterQueue(run, request.thread, at, 'rejoin') : found;
  if (entered.kind === 'waiting' && entered.cancel)
    await stopRuns([entered.lockOwner], interruptionBy(runId), familyPorts(at));
  return entered.kind === 'turn';
}

async function enterQueue(
  { tenant, runId, request }: NewRun,
  threadId: string,
  { core, redis }: Connected,
  busy: OnBusy | 'rejoin' = request.onBusy === 'steer' ? 'queue' : (request.onBusy ?? 'queue'),
): Promise<Entered> {
  const { agent: agentId } = request;
  return await enter(core.threadKeySpace(redis), { tenant, threadId, runId, agentId }, busy);
}

/**
 * Sends the input to the lock owner of the thread. Undefined when there is none, or it reads no more messages: then the input
 * starts a run of its own. Throws `queue_full`.
 */
async function steer(
  run: NewRun,
  threadId: string,
  claimed: ClaimedRequest,
  at: Connected,
): Promise<SteeredRun | undefined> {
  const { core, redis } = at;
  if (claimed.kind === 'steering' && (claimed.delivered || (await send(run, claimed.listener, at))))
    return await steeredRunNow(claimed.listener, run, at);
  const { tenant, request } = run;
  const [lockOwner, agentId] = await redis.hmget(
    core.keys.thread(tenant, threadId, 'manifest'),
    'lockOwner',
    'agentId',
  );
  if (!lockOwner || agentId !== request.agent) return undefined;
  return (await send(run, lockOwner, at)) ? { runId: lockOwner, status: 'running' } : undefined;
}

/** With an execution id the message goes to one run, however often it is sent: the run is noted before the message is sent. */
async function send(run: NewRun, listener: string, { core, redis }: Connected): Promise<boolean> {
  const space = core.runKeySpace(redis);
  const { runId, request } = run;
  const isKnown = request.executionId !== undefined;
  if (isKnown) await noteListener(run, listener, 'meant', space);
  const message = { id: runId, text: request.input, at: new Date().toISOString() };
  const sent = await steerRun(space, listener, message);
  if (sent === 'full') throw new RunError('queue_full', `run ${listener} has not yet read its earlier messages`);
  if (isKnown) await noteListener(run, listener, sent === 'delivered' ? 'delivered' : 'late', space);
  return sent === 'delivered';
}

/** The run that answers a message: the steered one, or the one after it, when it ended before it read the message. */
async function steeredRunNow(steered: string, { runId }: NewRun, { core, redis }: Connected): Promise<SteeredRun> {
  for (const id of [followUpId(steered, runId), steered]) {
    const status = await redis.hget(core.keys.run(id), 'status');
    if (status) return { runId: id, status: runStatus.parse(status) };
  }
  throw new RunError('run_not_found', `run ${steered}, which got the message, is past its retention`);
}

/** The run ended before: the repeat of its request must leave it neither in the wait queue of its thread nor among the open runs. */
export async function forgetEnded({ runId, tenant, request }: NewRun, at: Connected): Promise<void> {
  const { core, redis } = at;
  await forgetOpen(core.runKeySpace(redis), runId, tenant);
  if (request.thread === undefined) return;
  const [endedAt, epoch] = await redis.hmget(core.keys.run(runId), 'endedAt', 'epoch');
  // It was redriven since, and needs its position.
  if (!endedAt) return;
  const endedRun = { runId, epoch: Number(epoch) };
  const thread = { tenant, threadId: request.thread };
  await releaseToNext(core.threadKeySpace(redis), thread, endedRun, familyPorts(at).addJob);
}
