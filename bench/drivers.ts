import { randomUUID } from 'node:crypto';
import { Queue, QueueEvents } from 'bullmq';
import { Redis } from 'ioredis';
import { Millrace } from '../src/producer/index.ts';
import { input } from './workload.ts';

/** How the parent drives a system: a load of many at once, and one at a time for the latency of the first token. */
export interface Driver extends AsyncDisposable {
  /** Enqueues `runs` and resolves when all have ended. */
  load(runs: number): Promise<void>;
  /** Enqueues one run; resolves with the milliseconds to its first token, after the run has ended. */
  firstToken(): Promise<number>;
}

type FirstToken = (
  queue: Queue,
  jobId: string,
  redis: Redis,
) => Promise<{ seen: Promise<number>; stop(): Promise<unknown> }>;

/** A system that is a plain BullMQ worker on the queue `bench`. */
export async function bullDriver(redisUrl: string, prefix: string, watch: FirstToken | undefined): Promise<Driver> {
  const connection = { url: redisUrl };
  const queue = new Queue('bench', { connection, prefix });
  const redis = new Redis(redisUrl);
  await queue.waitUntilReady();
  const left = async () => {
    const counts = await queue.getJobCounts('waiting', 'active');
    return (counts['waiting'] ?? 0) + (counts['active'] ?? 0);
  };
  const drained = async (everyMs: number) => {
    while ((await left()) > 0) await new Promise((resolve) => setTimeout(resolve, everyMs));
  };
  return {
    async load(runs) {
      const options = { removeOnComplete: true, removeOnFail: true };
      await queue.addBulk(
        Array.from({ length: runs }, () => ({
          name: 'run',
          data: { input },
          opts: { ...options, jobId: randomUUID() },
        })),
      );
      await drained(20);
    },
    async firstToken() {
      const jobId = randomUUID();
      const watching = await watch?.(queue, jobId, redis);
      const started = performance.now();
      await queue.add('run', { input }, { jobId, removeOnComplete: true });
      const at = watching ? (await watching.seen) - started : Number.NaN;
      await watching?.stop();
      await drained(1);
      return at;
    },
    async [Symbol.asyncDispose]() {
      await queue.close();
      redis.disconnect();
    },
  };
}

/** First `progress` event of the job, as QueueEvents emits it. */
export function watchProgress(redisUrl: string, prefix: string): { watch: FirstToken; close(): Promise<void> } {
  const events = new QueueEvents('bench', { connection: { url: redisUrl }, prefix });
  const watch: FirstToken = async (_, jobId) => {
    await events.waitUntilReady();
    const { promise: seen, resolve } = Promise.withResolvers<number>();
    const listener = ({ jobId: id }: { jobId: string }) => id === jobId && resolve(performance.now());
    events.on('progress', listener);
    return { seen, stop: async () => events.off('progress', listener) };
  };
  return { watch, close: () => events.close() };
}

/** First message on the job's own channel. */
export function watchChannel(redisUrl: string, prefix: string): { watch: FirstToken; close(): Promise<void> } {
  const subscriber = new Redis(redisUrl);
  const watch: FirstToken = async (_, jobId) => {
    const channel = `${prefix}:live:${jobId}`;
    const { promise: seen, resolve } = Promise.withResolvers<number>();
    const listener = (name: string) => name === channel && resolve(performance.now());
    subscriber.on('message', listener);
    await subscriber.subscribe(channel);
    return {
      seen,
      async stop() {
        subscriber.off('message', listener);
        await subscriber.unsubscribe(channel);
      },
    };
  };
  return { watch, close: async () => subscriber.disconnect() };
}

/** Millrace through its own client. */
export async function millraceDriver(redisUrl: string, prefix: string): Promise<Driver> {
  const mill = new Millrace({ redis: redisUrl, prefix });
  const redis = new Redis(redisUrl);
  return {
    async load(runs) {
      const answers = await mill.enqueueMany(Array.from({ length: runs }, () => ({ agent: 'bench', input })));
      const refused = answers.find((answer) => 'error' in answer);
      if (refused) throw new Error(`a run was refused: ${JSON.stringify(refused)}`);
      while ((await redis.zcard(`${prefix}:_:open`)) > 0) await new Promise((resolve) => setTimeout(resolve, 20));
    },
    async firstToken() {
      const started = performance.now();
      const run = await mill.enqueue({ agent: 'bench', input });
      let at = Number.NaN;
      for await (const event of run.events())
        if (event.type === 'text.delta' && Number.isNaN(at)) at = performance.now() - started;
      return at;
    },
    async [Symbol.asyncDispose]() {
      await mill.close();
      redis.disconnect();
    },
  };
}
