import { tellParent, type Family } from './children/children.ts';
import type { ErrorInfo } from '../../base/errors.ts';
import type { EventBody } from '../../contract/event.ts';
import { newNonce } from '../../base/ids.ts';
import { legibleRecord } from '../../contract/legible-record.ts';
import { jsonText } from '../../base/json-text.ts';
import { zeroUsage } from '../../contract/money.ts';
import { loadScript, runScript } from '../connect.ts';
import type { RunRecord } from '../../contract/run.ts';
import { publishCommand, scriptEvent } from '../script.ts';
import { forgetOpen, lookSoon } from './open-runs.ts';
import { lookSoonAtThread } from '../thread/line.ts';
import { passOn } from '../thread/turns.ts';

const script = loadScript(import.meta.url, './end-unstarted.lua');

/**
 * Ends a queued run as failed, before a worker begins it: what waits for it goes on. `anew`: also one that has begun before and
 * waits for another turn of its thread. False: it has ended or has begun by now.
 */
export async function endUnstarted(
  record: RunRecord,
  error: ErrorInfo,
  family: Family,
  { anew }: { readonly anew: boolean },
): Promise<boolean> {
  const { place, threads, keepOf, addJob, onEnded } = family;
  const { redis, keys, lifecycle, eventLogMax } = place;
  const { runId, tenant, request, costMicrocents, usage = { ...zeroUsage, byModel: {} } } = record;
  const at = new Date().toISOString();
  const body: EventBody = { type: 'run.failed', error, usage, costMicrocents };
  const event = scriptEvent(record, at, body);
  const own = [keys.run, keys.journal, keys.events, keys.decided, keys.decisions].map((key) => key(runId));
  const { recordS, eventsS } = keepOf(record);
  await lookSoon(place, runId);
  if (request.thread !== undefined) await lookSoonAtThread(threads, { tenant, threadId: request.thread });
  const seq = Number(
    await runScript(
      redis,
      script,
      [...own, lifecycle.keyOf(runId)],
      [
        newNonce(),
        anew ? 1 : 0,
        at,
        'failed',
        jsonText(error),
        event,
        recordS,
        eventsS,
        eventLogMax,
        keys.live(runId),
        keys.firehose,
        publishCommand(place),
      ],
    ),
  );
  if (seq < 0) return false;
  if (request.thread !== undefined) await passOn(threads, { tenant, threadId: request.thread }, record, addJob);
  onEnded({ ...record, status: 'failed', error, endedAt: at }, body);
  if (record.parent) await tellParent(legibleRecord(await redis.hgetall(keys.run(runId))), family);
  // Last: what is lost on the way here is found where the run is listed.
  await forgetOpen(place, runId, tenant);
  return true;
}
