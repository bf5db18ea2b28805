import { Worker } from 'bullmq';
import OpenAI from 'openai';
import { serveParent, systemEnv } from '../workload.ts';
import { openaiTurn } from './openai-turn.ts';

// The usual first worker: the client loop inside a BullMQ job, one progress update per token.

const { redisUrl, baseUrl, prefix, concurrency } = systemEnv();
const client = new OpenAI({ baseURL: baseUrl, apiKey: 'bench' });
const worker = new Worker(
  'bench',
  async (job) => await openaiTurn(client, { onToken: (token) => job.updateProgress({ token }) }),
  { connection: { url: redisUrl }, prefix, concurrency, removeOnComplete: { count: 0 } },
);
await worker.waitUntilReady();
serveParent();
