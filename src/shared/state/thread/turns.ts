import { loadScript, runScript } from '../script.ts';
import type { AddJob } from '../run/waits/resume.ts';
import { jobKind } from '../../contract/run.ts';
import { leaveThread, type EndedRun } from './wait-queue.ts';
import type { ThreadKeySpace } from './key-space.ts';
import type { ThreadRef } from '../../contract/thread/thread.ts';

const wakeScript = loadScript(import.meta.url, './wake-queued.lua');
/** Runs that ended while they waited and that one call takes out of the line; the reconciler takes the rest. */
const maxSkipped = 1_000;

/**
 * Takes a run that has ended out of its thread, and queues the run whose turn it is now. Again changes nothing, so that
 * whoever finds a thread whose lock owner is over may do it, also late: a run that was driven again since keeps its thread.
 */
export async function releaseToNext(
  space: ThreadKeySpace,
  thread: ThreadRef,
  endedRun: EndedRun,
  addJob: AddJob,
): Promise<void> {
  const { redis, keys, clock } = space;
  let leaving = endedRun;
  for (let skipped = 0; skipped < maxSkipped; skipped++) {
    const { next } = await leaveThread(space, thread, leaving);
    if (next === undefined) return;
    const at = new Date(clock.now()).toISOString();
    const doing = `wake of run ${next}`;
    const [segment, queue, kind] = (await runScript(redis, wakeScript, [keys.run(next)], [at], { doing })) as
      | [number, string, string]
      | [];
    if (segment !== undefined)
      return await addJob({ runId: next, segment, queue: queue ?? '', kind: jobKind.parse(kind) });
    // One that works already has been woken; one that is over will not come for its turn.
    const [status, ended, epoch = 0] = await redis.hmget(keys.run(next), 'status', 'endedAt', 'epoch');
    if (status && !ended) return;
    leaving = { runId: next, epoch: Number(epoch) };
  }
}
