import { expect, test } from 'vitest';
import { redisArtifacts } from '../../src/shared/state/results/redis-artifacts.ts';
import { testRedis } from '../support/redis.ts';
import { artifactBounds, artifactsContract } from './artifacts.ts';
import { redisArtifactsWorld } from './artifacts-redis-world.ts';

artifactsContract('Redis', async () => (await redisArtifactsWorld()).worker);

const info = { toolName: 'report', trust: 'built-in', sensitivity: 'public' } as const;
const weekS = 7 * 86_400;

async function keysOf({ redis, keys }: Awaited<ReturnType<typeof redisArtifactsWorld>>): Promise<string[]> {
  return await redis.keys(keys.artifacts('run').replace('artifacts', '*'));
}

test('everything of a run goes by itself after seven days, counted from the last write', async () => {
  const world = await redisArtifactsWorld();
  const store = await world.worker();
  await store.put('run', 'one', Buffer.alloc(100_000), info);
  await world.redis.expire(world.keys.artifacts('run'), 5);
  await store.put('run', 'two', Buffer.alloc(10), info);
  const names = await keysOf(world);
  expect(names).toHaveLength(3);
  for (const name of names) {
    expect(await world.redis.ttl(name)).toBeGreaterThan(weekS - 60);
    expect(await world.redis.ttl(name)).toBeLessThanOrEqual(weekS);
  }
});

test('a body is stored in parts that no single command is slow for', async () => {
  const world = await redisArtifactsWorld();
  await (await world.worker()).put('run', 'one', Buffer.alloc(900_000), info);
  const [body = ''] = (await keysOf(world)).filter((name) => name !== world.keys.artifacts('run'));
  const sizes = Object.values(await world.redis.hgetall(body)).map((part) => part.length);
  expect(sizes).toHaveLength(14);
  expect(Math.max(...sizes)).toBe(64 * 1024);
});

test('neither a body that was replaced, nor one that was refused, nor one that was dropped leaves a key', async () => {
  const world = await redisArtifactsWorld();
  const store = await world.worker();
  await store.put('run', 'one', Buffer.alloc(900_000), info);
  await store.put('run', 'one', Buffer.alloc(800_000), info);
  await expect(store.put('run', 'two', Buffer.alloc(800_000), info)).rejects.toMatchObject({
    code: 'payload_too_large',
  });
  expect(await keysOf(world)).toHaveLength(2);
  await store.drop('run');
  expect(await keysOf(world)).toEqual([]);
});

test('a body whose parts have gone is not there', async () => {
  const world = await redisArtifactsWorld();
  const store = await world.worker();
  await store.put('run', 'one', Buffer.alloc(300_000), info);
  const [body = ''] = (await keysOf(world)).filter((name) => name !== world.keys.artifacts('run'));
  await world.redis.hdel(body, '2');
  expect((await store.read('run', 'one', 0, 10))?.bytes).toHaveLength(10);
  expect(await store.read('run', 'one', 131_072, 10)).toBeUndefined();
});

test('a body that was written and could not be given its name leaves no key', async () => {
  const world = await redisArtifactsWorld();
  const cut = () => Promise.reject(new Error('the connection was cut'));
  const redis = Object.assign(await testRedis(), { evalsha: cut, eval: cut });
  const store = redisArtifacts({ redis, keys: world.keys, bounds: artifactBounds });
  const put = store.put('run', 'one', Buffer.alloc(300_000), info);
  await expect(put).rejects.toMatchObject({ code: 'queue_unavailable' });
  expect(await keysOf(world)).toEqual([]);
});

test('what cannot reach Redis is queue_unavailable', async () => {
  const world = await redisArtifactsWorld();
  const store = await world.worker();
  world.redis.disconnect();
  const cut = redisArtifacts({ ...world, bounds: { maxBytes: 10, maxRunBytes: 10 } });
  await expect(cut.read('run', 'one', 0, 1)).rejects.toMatchObject({ code: 'queue_unavailable' });
  await expect(cut.put('run', 'one', Buffer.alloc(1), info)).rejects.toMatchObject({ code: 'queue_unavailable' });
  await expect(cut.drop('run')).rejects.toMatchObject({ code: 'queue_unavailable' });
  expect(await store.read('run', 'one', 0, 1)).toBeUndefined();
});
