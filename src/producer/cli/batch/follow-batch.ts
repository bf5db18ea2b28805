import { setTimeout as sleep } from 'node:timers/promises';
import { asRunError } from '../../../shared/base/errors.ts';
import type { BatchView } from '../../../shared/contract/batch.ts';
import { isEndedBatch } from '../../../shared/contract/plain/batch-ends.ts';
import type { Batches } from '../../client/batches/batches.ts';

/** Called with what happens, to show it. Must not throw. */
export interface BatchWatcher {
  progress(batch: BatchView): void;
  /** Every open line waits for money. Called once, and again when it goes on and waits anew. */
  outOfMoney(batch: BatchView): void;
  /** The server is away; the next look comes after `delayMs`. */
  waiting(message: string, delayMs: number): void;
}

const firstDelayMs = 500;
const maxDelayMs = 15_000;
/** The server has answered nothing for this long: then an operator should look. */
const maxWaitMs = 600_000;

/**
 * Follows a batch until it has ended or rests: it is paused, or waits with its quote. While the server is away it waits. Throws what
 * the server answered last after ten minutes without a word, and the signal's reason.
 */
export async function followBatch(
  batches: Pick<Batches, 'events'>,
  first: BatchView,
  watcher: BatchWatcher,
  signal: AbortSignal,
): Promise<BatchView> {
  let last = first;
  let [delayMs, waitedMs] = [firstDelayMs, 0];
  let wasStuck = false;
  const hear = (batch: BatchView) => {
    last = batch;
    [delayMs, waitedMs] = [firstDelayMs, 0];
    watcher.progress(batch);
    const isStuck = batch.open.total > 0 && batch.open.waitingForMoney === batch.open.total;
    if (isStuck && !wasStuck) watcher.outOfMoney(batch);
    wasStuck = isStuck;
  };
  for (;;) {
    signal.throwIfAborted();
    try {
      for await (const batch of batches.events(first.id, { signal })) {
        hear(batch);
        if (rests(batch)) return batch;
      }
      if (isEndedBatch(last.status)) return last;
      signal.throwIfAborted();
    } catch (thrown) {
      signal.throwIfAborted();
      const { code, message } = asRunError(thrown);
      if (code !== 'queue_unavailable' || waitedMs >= maxWaitMs) throw thrown;
      watcher.waiting(message, delayMs);
    }
    await sleep(delayMs, undefined, { signal }).catch(() => signal.throwIfAborted());
    waitedMs += delayMs;
    delayMs = Math.min(delayMs * 2, maxDelayMs);
  }
}

function rests({ status }: BatchView): boolean {
  return status === 'paused' || status === 'quoted' || isEndedBatch(status);
}
