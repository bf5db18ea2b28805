import type { NewRun } from '../shared/create-runs.ts';
import { stopRuns } from '../shared/children.ts';
import { assertNever, RunError } from '../shared/errors.ts';
import type { RedisConnection } from '../shared/redis.ts';
import { enterThread as enter, type Entered } from '../shared/thread-line.ts';
import type { OnBusy } from '../shared/thread.ts';
import { passOn } from '../shared/thread-turns.ts';
import { familyOf } from './control.ts';
import { sayToRun } from '../shared/steer.ts';
import { placeOf, threadPlaceOf } from './layout.ts';
import type { Link } from './link.ts';

/**
 * Gives a run its place in its thread before it is created, so that the order of acceptance is the order of turns. Answers
 * true when it has to wait there: whoever holds the thread queues it. Also when it was passed over before it came to be: it gets
 * another place once it is there. A delayed run gets its place when its time has come.
 * Throws `validation` for the thread of another agent, `concurrent_run` and `thread_suspended` where it was not to wait.
 */
export async function enterThread(run: NewRun, link: Link, redis: RedisConnection): Promise<boolean> {
  const { thread: threadId, agent: agentId, delayMs = 0 } = run.request;
  if (threadId === undefined || delayMs > 0) return false;
  const entered = await place(run, threadId, link, redis);
  switch (entered.kind) {
    case 'turn':
      return false;
    case 'waiting':
    case 'left':
      return true;
    case 'refused_busy':
      throw new RunError('concurrent_run', `run ${entered.holder} is at work on thread ${threadId}`);
    case 'refused_suspended':
      throw new RunError('thread_suspended', `run ${entered.holder} waits for a decision on thread ${threadId}`);
    case 'other_agent':
      throw new RunError('validation', `thread ${threadId} belongs to agent ${entered.agentId}, not to ${agentId}`);
    default:
      return assertNever(entered);
  }
}

/**
 * Looks again where a run stands that had to wait, once it is created. Only now is the holder cancelled for it: a thread that is
 * passed on to a run which is not there yet is passed on past it, and then it gets another place here. Answers true when its
 * turn has come: then nobody else may queue it.
 */
export async function lookAgain(run: NewRun, link: Link, redis: RedisConnection): Promise<boolean> {
  const { runId, request } = run;
  if (request.thread === undefined) return false;
  const found = await place(run, request.thread, link, redis);
  // Before it is acknowledged, so that nobody who comes later goes before it.
  const stands = found.kind === 'left' ? await place(run, request.thread, link, redis, 'afresh') : found;
  if (stands.kind === 'waiting' && stands.cancel)
    await stopRuns([stands.holder], interruption(runId), familyOf(link, redis));
  return stands.kind === 'turn';
}

async function place(
  { tenant, runId, request }: NewRun,
  threadId: string,
  link: Link,
  redis: RedisConnection,
  busy: OnBusy | 'afresh' = request.onBusy === 'steer' ? 'queue' : (request.onBusy ?? 'queue'),
): Promise<Entered> {
  const { agent: agentId } = request;
  return await enter(threadPlaceOf(link, redis), { tenant, threadId, runId, agentId }, busy);
}

/**
 * Says the input to the run that holds the thread, where the request asks for that. Answers that run; undefined when nobody is
 * at work, or it is too late: then the input is a message like any other. Throws `queue_full`.
 */
export async function steer(
  { tenant, runId, request }: NewRun,
  link: Link,
  redis: RedisConnection,
): Promise<string | undefined> {
  const { thread: threadId, onBusy, agent } = request;
  if (threadId === undefined || onBusy !== 'steer') return undefined;
  const [holder, agentId] = await redis.hmget(link.keys.thread(tenant, threadId, 'manifest'), 'holder', 'agentId');
  if (!holder || agentId !== agent) return undefined;
  const message = { id: runId, text: request.input, at: new Date().toISOString() };
  const said = await sayToRun(placeOf(link, redis), holder, message);
  if (said === 'full') throw new RunError('queue_full', `run ${holder} has not yet heard what was said before`);
  return said === 'said' ? holder : undefined;
}

function interruption(runId: string) {
  return { drain: false, onPendingApprovals: 'deny', reason: `run ${runId} interrupts it` } as const;
}

/** It ended before: the repeat of its request must not keep a place in a thread, nor a mark that it is open. */
export async function forgetEnded(
  { runId, tenant, request }: NewRun,
  link: Link,
  redis: RedisConnection,
): Promise<void> {
  await redis.zrem(link.keys.open, runId);
  if (request.thread === undefined) return;
  const { addJob } = familyOf(link, redis);
  await passOn(threadPlaceOf(link, redis), { tenant, threadId: request.thread }, runId, addJob);
}
