import { storedCancel, type CancelRequest, type ControlMessage } from '../../../contract/control.ts';
import type { ErrorInfo } from '../../../base/errors.ts';
import type { EventBody } from '../../../contract/event.ts';
import { newNonce } from '../../../base/ids.ts';
import { jsonText } from '../../../base/json.ts';
import { lookSoon } from '../open-runs.ts';
import {
  loadScript,
  eventStart,
  scriptEvent,
  type RunKeySpace,
  archiveWaitS,
  recordTtlS,
  runOnRun,
  eventTargets,
  stampOf,
} from '../../script.ts';
import { workOf, type RunRecord } from '../../../contract/run.ts';
import { zeroUsage } from '../../../contract/money.ts';

const script = loadScript(import.meta.url, './cancel.lua');

/** By the answers of the script. */
const stoppedByCode = ['gone', 'ended_before', 'ended_here', 'asked', 'held'] as const;

/**
 * - gone, ended_before: there is nothing to stop
 * - held: it waits on for people, who may still decide
 * - ended_here: it needed no worker, and has ended now
 * - asked: its worker gets the request, and ends it. A parent ends once its children have
 */
export type Stopped = (typeof stoppedByCode)[number];

/**
 * Asks a run to stop, and ends it at once when it needs no worker. Listed as cancelled before the flag is set, so that a worker
 * that misses the channel still finds it; removed from the list when the run has ended. One that ended here stays in the sets of
 * open runs until the caller has notified its parent.
 */
export async function stopRun(record: RunRecord, cancel: CancelRequest, space: RunKeySpace): Promise<Stopped> {
  const { redis, keys } = space;
  const { runId } = record;
  // What follows the end of the run may be lost with this process.
  await Promise.all([redis.sadd(keys.cancels, runId), lookSoon(space, runId)]);
  const args = cancelArguments(record, cancel, space);
  const [code, inForce] = (await runOnRun(space, runId, script, args, { doing: `cancel of run ${runId}` })) as
    | readonly [0 | 1 | 2 | 4, undefined?]
    | readonly [3, string];
  if (code === 3) {
    const message: ControlMessage = { v: 1, runId, op: 'cancel', cancel: storedCancel(inForce) };
    await redis.publish(keys.control, jsonText(message));
  } else if (code === 2) await redis.zrem(keys.timers, runId);
  else await redis.srem(keys.cancels, runId);
  return stoppedByCode[code];
}

function cancelArguments(record: RunRecord, cancel: CancelRequest, space: RunKeySpace): (string | number)[] {
  const { runId, request, startedAt } = record;
  const at = new Date().toISOString();
  const cancelled = { type: 'run.cancelled', drained: false, reason: cancel.reason } as const;
  const error: ErrorInfo = { code: 'run_aborted', message: 'aborted while approvals were pending', retryable: false };
  const stamp = { ...stampOf(record), timestamp: at };
  const durationMs = startedAt === undefined ? undefined : Math.max(0, Date.parse(at) - Date.parse(startedAt));
  const whole = (body: EventBody) => scriptEvent({ ...stamp, ...body });
  return [
    newNonce(),
    jsonText(cancel),
    cancel.onPendingApprovals,
    at,
    eventStart({ ...stamp, ...cancelled }),
    eventStart({ ...stamp, type: 'run.failed', error }),
    jsonText(error),
    jsonText({ ...zeroUsage, byModel: {} }),
    recordTtlS(space, request.executionId !== undefined, request.store),
    space.eventLogTtlS,
    ...eventTargets(space, runId),
    whole({ type: 'agent.cancelling', drain: cancel.drain, onPendingApprovals: cancel.onPendingApprovals }),
    eventStart({ ...stamp, type: 'tool.approval.denied' }),
    'the run was cancelled',
    eventStart({ ...stamp, type: 'usage.recorded', durationMs }),
    whole({ type: 'agent.end', output: '', status: 'cancelled' }),
    whole({ type: 'agent.error', code: error.code, message: error.message }),
    workOf(request).kind === 'node' ? whole({ type: 'node.failed', error }) : '',
    archiveWaitS(space, request.store),
  ];
}
