import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { DevRedis } from '../../../../src/producer/cli/stack/dev-redis.ts';
import { startScratchRedis } from '../../../support/scratch-redis.ts';
import { redisThreadsWorld } from '../../../contract/threads-redis-world.ts';
import { answers, aRun, asks, enter, acquire, tenant } from '../../../contract/threads-world.ts';
import { testRedis } from '../../../support/redis.ts';

/** A Redis of its own: these tests change its configuration. */
let server: DevRedis;

beforeAll(async () => {
  server = await startScratchRedis();
});

afterEach(async () => {
  const redis = await testRedis('work', server.url);
  await redis.config('SET', 'maxmemory', '0', 'min-replicas-to-write', '0');
});

afterAll(() => server.stop());

test.each([
  ['is out of memory', ['maxmemory', '1']],
  ['has lost its replicas', ['min-replicas-to-write', '1']],
] as const)('a Redis that %s changes nothing of a thread, and the same calls succeed later', async (_, config) => {
  const { redis, keys, ...world } = await redisThreadsWorld(server.url);
  const { threads } = world;
  const lock = await acquire(world, 'a');
  await threads.append(lock, 'op1', [asks('a', 'hi')]);
  await enter(world, 'b', 'rollback');
  const other = await acquire(world, 'x', 't2');
  const stored = async () => {
    const names = (await redis.keys(keys.thread(tenant, '*', 'manifest').replace('manifest', '*'))).toSorted();
    return await Promise.all(names.map(async (name) => [name, await redis.dumpBuffer(name)]));
  };
  const before = await stored();
  const all = [
    () => enter(world, 'c'),
    () => enter(world, 'd', 'queue', 'new'),
    () => threads.acquire(aRun('a')),
    () => threads.append(other, 'op2', [asks('x', 'hi'), answers('x', 'yes')], { title: 'T' }),
    () => threads.append(lock, 'op3', [answers('a', 'yes')]),
    () => threads.suspend(other),
    () => threads.update(tenant, 't2', { title: 'U' }),
    () => threads.leave(tenant, 't1', 'b'),
    () => threads.leave(tenant, 't1', 'a'),
  ];
  await redis.config('SET', ...config);
  for (const act of all) await expect(act()).rejects.toMatchObject({ code: 'queue_unavailable' });
  expect(await threads.get(tenant, 't1')).toMatchObject({ lockOwner: 'a', waiting: 1 });
  await redis.config('SET', 'maxmemory', '0', 'min-replicas-to-write', '0');
  expect(await stored()).toEqual(before);
  for (const act of all) await act();
  expect(await threads.get(tenant, 't1')).toMatchObject({ lockOwner: 'c', waiting: 0 });
});
