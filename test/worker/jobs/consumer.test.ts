import { expect, onTestFinished, test } from 'vitest';
import { silentLog, type Log } from '../../../src/shared/base/log.ts';
import { Consumer, type ConsumerOptions } from '../../../src/worker/jobs/consumer.ts';
import { OwnRedis } from '../../support/own-redis.ts';
import { testPrefix, testRedis, until } from '../../support/redis.ts';

test('each queue that Redis refuses pauses by itself, however many are refused at once', async () => {
  const { url } = await OwnRedis.start();
  const admin = await testRedis('work', url);
  const queues = ['a', 'b', 'c'];
  const warned: string[] = [];
  const log = {
    ...silentLog,
    warn: ({ queue }: { readonly queue: string }) => void warned.push(queue),
  } as unknown as Log;
  const options: Omit<ConsumerOptions, 'deps'> = {
    connection: await testRedis('blocking', url),
    bullPrefix: testPrefix(),
    queues,
    concurrency: 1,
    worker: 'w',
    lockDurationMs: 60_000,
    stalledIntervalMs: 60_000,
    log,
    quarantine: async () => {},
    abandon: async () => {},
  };
  // No job is ever taken.
  const consumer = new Consumer({ ...options, deps: {} as ConsumerOptions['deps'] });
  await admin.config('SET', 'maxmemory', '1');
  await consumer.start();
  onTestFinished(async () => {
    await admin.config('SET', 'maxmemory', '0');
    await consumer.stop(0);
  });
  await until('one of them was refused again after its pause', () => new Set(warned).size < warned.length);
  const refused = Number(/errorstat_OOM:count=(\d+)/.exec(await admin.info('errorstats'))?.[1]);
  // Before a pause, a fetch and at most one look for stalled jobs, and each queue may be before its next pause; a loop that does not
  // pause is refused thousands of times.
  expect(refused).toBeLessThanOrEqual(2 * (warned.length + queues.length));
  expect(new Set(warned)).toEqual(new Set(queues));
});
