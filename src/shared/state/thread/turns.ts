import { loadScript, runScript } from '../script.ts';
import type { AddJob } from '../run/waits/resume.ts';
import { jobKind } from '../../contract/run.ts';
import { leaveThread, type EndedRun } from './wait-queue.ts';
import type { ThreadKeySpace } from './key-space.ts';
import type { ThreadRef } from '../../contract/thread/thread.ts';

const wakeScript = loadScript(import.meta.url, './wake-queued.lua');
/** Runs that ended while they waited and that one call takes out of the wait queue; the reconciler takes the rest. */
const maxSkipped = 1_000;

/**
 * Takes a run that has ended out of its thread, and adds a job for the new lock owner. Again changes nothing: any process that
 * finds an ended lock owner may call it, also late. A run that was redriven since keeps its lock.
 */
export async function releaseToNext(
  space: ThreadKeySpace,
  thread: ThreadRef,
  endedRun: EndedRun,
  addJob: AddJob,
): Promise<void> {
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
