import { notifyParent, type Family } from './children/children.ts';
import type { ErrorInfo } from '../../base/errors.ts';
import type { EventBody } from '../../contract/event.ts';
import { newNonce } from '../../base/ids.ts';
import { jsonText } from '../../base/json.ts';
import { loadScript, scriptEvent, archiveWaitS, recordTtlS, runOnRun, eventTargets, stampOf } from '../script.ts';
import type { RunRecord } from '../../contract/run.ts';
import { forgetOpen, loadRun, lookSoon } from './open-runs.ts';
import { lookSoonAtThread, releaseToNext } from '../thread/lock.ts';
import { zeroUsage } from '../../contract/money.ts';

const script = loadScript(import.meta.url, './end-unstarted.lua');

/**
 * Ends a queued run as failed, before a worker begins it, and notifies what waits for it. `anew`: also one that has begun before
 * and waits for its thread again. False: it has ended or has begun by now.
 */
export async function endUnstarted(
  record: RunRecord,
  error: ErrorInfo,
  family: Family,
  { anew }: { readonly anew: boolean },
): Promise<boolean> {
  const { space, threads, addJob, onEnded } = family;
  const { runId, tenant, request, costMicrocents, usage = { ...zeroUsage, byModel: {} } } = record;
  const at = new Date().toISOString();
  const body: EventBody = { type: 'run.failed', error, usage, costMicrocents };
  const args = [
    newNonce(),
    anew ? 1 : 0,
    at,
    'failed',
    jsonText(error),
    scriptEvent({ ...stampOf(record), timestamp: at, ...body }),
    recordTtlS(space, request.executionId !== undefined, request.store),
    space.eventLogTtlS,
    archiveWaitS(space, request.store),
    ...eventTargets(space, runId),
  ];
  await lookSoon(space, runId);
  if (request.thread !== undefined) await lookSoonAtThread(threads, { tenant, threadId: request.thread });
  const seq = Number(await runOnRun(space, runId, script, args, { doing: `end of run ${runId}, which has not begun` }));
  if (seq < 0) return false;
  if (request.thread !== undefined) await releaseToNext(threads, { tenant, threadId: request.thread }, record, addJob);
  onEnded({ ...record, status: 'failed', error, endedAt: at }, body);
  const ended = record.parent && (await loadRun(runId, space));
  if (ended) await notifyParent(ended, family);
  // Last: the reconciler finds what a crash leaves undone while the run is listed.
  await forgetOpen(space, runId, tenant);
  return true;
}
