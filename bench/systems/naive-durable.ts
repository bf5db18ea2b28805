import { Worker } from 'bullmq';
import { Redis } from 'ioredis';
import OpenAI from 'openai';
import { serveParent, systemEnv } from '../workload.ts';
import { openaiTurn } from './openai-turn.ts';

// The usual second worker: every token into a stream and a channel, the messages saved after each step.

const { redisUrl, baseUrl, prefix, concurrency } = systemEnv();
const client = new OpenAI({ baseURL: baseUrl, apiKey: 'bench' });
const redis = new Redis(redisUrl, { maxRetriesPerRequest: null });
const worker = new Worker(
  'bench',
  async (job) =>
    await openaiTurn(client, {
      onToken: (token) =>
        Promise.all([
          redis.xadd(`${prefix}:log:${job.id}`, '*', 'e', JSON.stringify({ token })),
          redis.publish(`${prefix}:live:${job.id}`, token),
        ]),
      onStep: (messages) => redis.set(`${prefix}:state:${job.id}`, JSON.stringify(messages)),
    }),
  { connection: redis, prefix, concurrency, removeOnComplete: { count: 0 } },
);
await worker.waitUntilReady();
serveParent();
