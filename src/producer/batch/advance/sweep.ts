import { asRunError } from '../../../shared/base/errors.ts';
import { isEndedBatch } from '../../../shared/contract/plain/batch-ends.ts';
import type { BatchRecord } from '../../../shared/contract/batch-record.ts';
import type { JobQueues } from '../../client/enqueue.ts';
import type { AdvancePorts } from './own-batch.ts';

/** One process of all looks, so often. */
const sweepMs = 10_000;
const pageSize = 100;
/** A batch so young may be without its job: it is just being made. */
const youngMs = 5_000;

/** Looks for open batches that no job would advance, and gives them one; drops those from the list that have ended. */
export async function sweepBatches(
  { store, clock }: Pick<AdvancePorts, 'store' | 'clock'>,
  queues: Pick<JobQueues, 'addBatch' | 'hasBatch'>,
): Promise<void> {
  if (!(await store.maySweep(sweepMs))) return;
  for (let offset = 0; ;) {
    const ids = await store.allOpen(offset, pageSize);
    let dropped = 0;
    for (const id of ids) {
      const record = await store.load(id).catch(unreadable);
      if (record === 'unreadable') continue;
      if (record === undefined) dropped += await store.forgetOpen(id);
      else if (isEndedBatch(record.status)) {
        await store.unlist(id, record.tenant);
        dropped += 1;
      } else if (needsJob(record, clock.now()) && !(await queues.hasBatch(id, Number(record.jobs)))) {
        const job = await store.nextJob(id, record.jobs);
        if (job !== undefined) await queues.addBatch(id, job);
      }
    }
    if (ids.length < pageSize) return;
    offset += ids.length - dropped;
  }
}

/** One that no version of ours can read keeps no other from its job. */
function unreadable(thrown: unknown): 'unreadable' {
  if (asRunError(thrown).code !== 'run_state_malformed') throw thrown;
  return 'unreadable';
}

/** One that rests has none until its caller wishes something, or it expires. */
function needsJob({ status, stay, createdAt, expiresAt }: BatchRecord, nowMs: number): boolean {
  if (nowMs - createdAt < youngMs) return false;
  const rests = (status === 'paused' || status === 'quoted') && stay === '';
  return !rests || nowMs >= expiresAt;
}
