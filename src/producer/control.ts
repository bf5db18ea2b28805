import { cancelRequest, type CancelRequest, type ControlMessage } from '../shared/control.ts';
import { assertNever, RunError, type ErrorInfo } from '../shared/errors.ts';
import { newNonce } from '../shared/ids.ts';
import { zeroUsage } from '../shared/money.ts';
import { loadScript, runScript, type RedisConnection } from '../shared/redis.ts';
import { viewOf, type RunRecord, type RunView } from '../shared/run.ts';
import { eventStart, scriptEvent } from './events.ts';
import { addLifecycle, eventTargets, retentionS, scriptKeys } from './layout.ts';
import { leaveLines } from './lines.ts';
import type { Link } from './link.ts';
import { loadRecord } from './reads.ts';
import { checkRunId, invalid, runNotFound } from './validate.ts';

const script = loadScript(import.meta.url, './lua/cancel.lua');

type CancelReply =
  | { readonly kind: 'gone' | 'ended_before' | 'held' }
  | { readonly kind: 'ended_here'; readonly lastSequence: number }
  | { readonly kind: 'asked'; readonly cancel: CancelRequest };

/**
 * Asks a run to stop. One that waits for people ends at once too, its open calls denied, unless these are to be held: then
 * it goes on waiting, and whoever is asked may still decide. Listed as cancelled before the flag is set, so that a worker that misses the channel still finds
 * it; taken off the list again when the run has ended.
 */
export async function cancelRun(
  id: string,
  tenant: string,
  input: Partial<CancelRequest>,
  link: Link,
): Promise<RunView> {
  const runId = checkRunId(id);
  const parsed = cancelRequest.safeParse(input);
  if (!parsed.success) throw invalid('validation', 'the cancel request is not valid', parsed.error.issues);
  return await link.reach(async (redis) => {
    const record = await loadRecord(link, redis, runId, tenant);
    await redis.sadd(link.keys.cancels, runId);
    const reply = await askToStop(record, parsed.data, link, redis);
    switch (reply.kind) {
      case 'gone':
        await redis.srem(link.keys.cancels, runId);
        throw runNotFound(runId);
      case 'ended_before':
        await redis.srem(link.keys.cancels, runId);
        throw alreadyTerminal(record);
      case 'held':
        await redis.srem(link.keys.cancels, runId);
        break;
      case 'ended_here':
        await forget(record, link, redis);
        break;
      case 'asked':
        await wakeWorker(runId, reply.cancel, link, redis);
        break;
      default:
        return assertNever(reply);
    }
    return viewOf(await loadRecord(link, redis, runId, tenant));
  });
}

async function askToStop(
  record: RunRecord,
  cancel: CancelRequest,
  link: Link,
  redis: RedisConnection,
): Promise<CancelReply> {
  const at = new Date().toISOString();
  const cancelled = {
    type: 'run.cancelled',
    drained: false,
    ...(cancel.reason !== undefined && { reason: cancel.reason }),
  } as const;
  const error: ErrorInfo = { code: 'run_aborted', message: 'aborted while approvals were pending', retryable: false };
  const reply = (await runScript(redis, script, scriptKeys(link, record.runId), [
    newNonce(),
    JSON.stringify(cancel),
    cancel.onPendingApprovals,
    at,
    eventStart(record, at, cancelled),
    eventStart(record, at, { type: 'run.failed', error }),
    JSON.stringify(error),
    JSON.stringify({ ...zeroUsage, byModel: {} }),
    retentionS(link, record),
    link.settings.eventLogTtlS,
    ...eventTargets(link, record.runId),
    scriptEvent(record, at, { type: 'agent.cancelling', drain: cancel.drain, onPendingApprovals: 'hold' }).flagged,
    eventStart(record, at, { type: 'tool.approval.denied' }),
    'the run was cancelled',
  ])) as [0] | [1] | [2, number, string] | [3, string] | [4];
  switch (reply[0]) {
    case 0:
      return { kind: 'gone' };
    case 1:
      return { kind: 'ended_before' };
    case 2:
      await addLifecycle(link, redis, [{ flagged: reply[2], lifecycle: true }], reply[1]);
      return { kind: 'ended_here', lastSequence: reply[1] };
    case 3:
      return { kind: 'asked', cancel: cancelRequest.parse(JSON.parse(reply[1])) };
    case 4:
      return { kind: 'held' };
    default:
      return assertNever(reply);
  }
}

/** The run has ended here; a job that is left would only be skipped by a worker, so a failure to remove it is no matter. */
async function forget(record: RunRecord, link: Link, redis: RedisConnection): Promise<void> {
  await redis.zrem(link.keys.open, record.runId);
  await redis.srem(link.keys.cancels, record.runId);
  await redis.zrem(link.keys.asking(record.tenant), record.runId);
  await leaveLines(record, link, redis);
  await link.queues.remove(record.queue, record.runId, record.segment).catch(link.onError);
}

async function wakeWorker(runId: string, cancel: CancelRequest, link: Link, redis: RedisConnection): Promise<void> {
  const message: ControlMessage = { v: 1, runId, op: 'cancel', cancel };
  await redis.publish(link.keys.control, JSON.stringify(message));
}

function alreadyTerminal(record: RunRecord): RunError {
  return new RunError('already_terminal', `run ${record.runId} has already ended`);
}
