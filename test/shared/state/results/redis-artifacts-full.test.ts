import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { DevRedis } from '../../../../src/producer/cli/stack/dev-redis.ts';
import { startScratchRedis } from '../../../support/scratch-redis.ts';
import { redisArtifactsWorld } from '../../../contract/artifacts-redis-world.ts';
import { redisProgressWorld } from '../../../contract/progress-redis-world.ts';
import { draft } from '../../../contract/progress-notes.ts';
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

const info = { toolName: 'report', trust: 'built-in', sensitivity: 'public' } as const;
const refusals = [
  ['is out of memory', ['maxmemory', '1']],
  ['has lost its replicas', ['min-replicas-to-write', '1']],
] as const;

test.each(refusals)('a Redis that %s keeps nothing of a result, and what was there stays', async (_, config) => {
  const { redis, keys, worker } = await redisArtifactsWorld(server.url);
  const store = await worker();
  await store.put('run', 'one', Buffer.alloc(100_000, 1), info);
  const before = await redis.keys(keys.artifacts('run').replace('artifacts', '*'));
  await redis.config('SET', ...config);
  for (const size of [0, 300_000]) {
    const put = store.put('run', 'one', Buffer.alloc(size, 2), info);
    await expect(put).rejects.toMatchObject({ code: 'queue_unavailable' });
  }
  expect((await store.read('run', 'one', 99_999, 10))?.bytes).toEqual(Buffer.from([1]));
  await redis.config('SET', 'maxmemory', '0', 'min-replicas-to-write', '0');
  expect((await redis.keys(keys.artifacts('run').replace('artifacts', '*'))).toSorted()).toEqual(before.toSorted());
  await store.put('run', 'one', Buffer.alloc(5, 2), info);
  expect((await store.read('run', 'one', 0, 10))?.bytes).toHaveLength(5);
});

test.each(refusals)('a Redis that %s takes no note, and the same write succeeds later', async (_, config) => {
  const { redis, worker } = await redisProgressWorld({ url: server.url });
  const notes = await worker();
  await notes.write(draft('one'));
  await redis.config('SET', ...config);
  const second = draft('two');
  await expect(notes.write(second)).rejects.toMatchObject({ code: 'progress_write_failed' });
  await redis.config('SET', 'maxmemory', '0', 'min-replicas-to-write', '0');
  expect((await notes.write(second)).seq).toBe(2);
  const read = await notes.read('acme', second.runId, {});
  expect(read.map(({ text }) => text)).toEqual(['one', 'two']);
});
