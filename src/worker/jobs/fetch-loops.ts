import { Worker, type Processor, type WorkerOptions } from 'bullmq';
import type { Log } from '../../shared/base/log.ts';
import type { RedisConnection } from '../../shared/state/connect.ts';

/** What the consumers of all queues are opened with. */
export interface QueueSettings {
  readonly connection: RedisConnection;
  readonly bullPrefix: string;
  /** The name of this worker. */
  readonly worker: string;
  readonly lockDurationMs: number;
  readonly stalledIntervalMs: number;
  readonly log: Log;
}

/** The fetch loop of a queue. A processor gets a signal only if it declares three parameters. */
export function fetchLoop(
  queue: string,
  process: Processor,
  { connection, bullPrefix, worker: name, lockDurationMs, stalledIntervalMs }: QueueSettings,
  own: Partial<WorkerOptions>,
): Worker {
  return new Worker(queue, process, {
    connection,
    prefix: bullPrefix,
    name,
    autorun: false,
    lockDuration: lockDurationMs,
    stalledInterval: stalledIntervalMs,
    runRetryDelay: 1_000,
    ...own,
  });
}

export async function startLoops(workers: readonly Worker[], { log }: QueueSettings): Promise<void> {
  await Promise.all(workers.map((worker) => worker.waitUntilReady()));
  for (const worker of workers)
    worker.run().catch((err: unknown) => log.error({ err, queue: worker.name }, 'fetch loop ended'));
}

/** Stops fetching, waits for what has begun, and closes. `cut` ends what has not ended after `graceMs`. */
export async function stopLoops(
  workers: readonly Worker[],
  graceMs: number,
  cut: () => void,
  ended: () => Promise<unknown>,
): Promise<void> {
  await Promise.all(workers.map((worker) => worker.pause(true)));
  const timer = setTimeout(cut, graceMs);
  await ended();
  clearTimeout(timer);
  await Promise.all(workers.map((worker) => worker.close()));
}
