import { Worker } from 'bullmq';
import { serveParent, systemEnv } from '../workload.ts';

// The floor of anything built on BullMQ: a job that does nothing.

const { redisUrl, prefix, concurrency } = systemEnv();
const worker = new Worker('bench', async () => null, {
  connection: { url: redisUrl },
  prefix,
  concurrency,
  removeOnComplete: { count: 0 },
});
await worker.waitUntilReady();
serveParent();
