import { Queue } from 'bullmq';
import { expect, onTestFinished, test } from 'vitest';
import { silentLog } from '../../../src/shared/base/log.ts';
import type { PostrunJob } from '../../../src/shared/contract/queues.ts';
import { postRunConsumer, type PostRunConsumerOptions } from '../../../src/worker/jobs/post-run-queue.ts';
import { testPrefix, testRedis, until } from '../../support/redis.ts';

const data: PostrunJob = {
  v: 1,
  kind: 'postrun',
  postRun: 'title',
  runId: '01K9Z5N3T8R6V2X4B7C1D0E9FG',
  tenant: 'default',
  threadId: 'talk',
  agentId: 'support',
};

async function makeWorld(run: PostRunConsumerOptions['run']) {
  const [connection, bullPrefix] = [await testRedis('blocking'), testPrefix()];
  const queue = new Queue('runs-postrun', { connection, prefix: bullPrefix });
  const consumer = postRunConsumer({
    connection,
    bullPrefix,
    queues: ['runs-postrun'],
    worker: 'w',
    lockDurationMs: 2_000,
    stalledIntervalMs: 500,
    log: silentLog,
    run,
  });
  await consumer.start();
  onTestFinished(async () => {
    await consumer.stop(0);
    await queue.close();
  });
  return { queue, consumer };
}

test('each try knows whether it was begun before and whether another one follows', async () => {
  const tries: { isRepeat: boolean; isLast: boolean }[] = [];
  const { queue } = await makeWorld(async (_, delivery) => {
    tries.push(delivery);
    throw new Error('broken');
  });
  const job = await queue.add('postrun', data, { attempts: 2 });
  await until('it has failed for good', async () => (await job.getState()) === 'failed');
  expect(tries).toEqual([
    { isRepeat: false, isLast: false },
    { isRepeat: true, isLast: true },
  ]);
});

test('a job that has not ended when the worker drains returns to its queue, and costs no try', async () => {
  const { promise: begun, resolve: begin } = Promise.withResolvers<void>();
  const { queue, consumer } = await makeWorld(async (_, __, signal) => {
    begin();
    await new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
  });
  const job = await queue.add('postrun', data, { attempts: 1 });
  await begun;
  await consumer.stop(50);
  expect(await job.getState()).toBe('waiting');
  expect((await queue.getJob(job.id as string))?.attemptsMade).toBe(0);
});

test('what can end within the grace does', async () => {
  const { promise: begun, resolve: begin } = Promise.withResolvers<void>();
  const { promise: released, resolve: end } = Promise.withResolvers<void>();
  const { queue, consumer } = await makeWorld(async () => {
    begin();
    await released;
  });
  const job = await queue.add('postrun', data);
  await begun;
  const stopped = consumer.stop(5_000);
  end();
  await stopped;
  expect(await job.getState()).toBe('completed');
});

test('a job of another form is refused, without a second try', async () => {
  const { queue } = await makeWorld(async () => {});
  const job = await queue.add('postrun', { ...data, postRun: 'song' }, { attempts: 3 });
  await until('it has failed', async () => (await job.getState()) === 'failed');
  expect(await queue.getJob(job.id as string)).toMatchObject({
    attemptsMade: 1,
    failedReason: expect.stringContaining('validation'),
  });
});
