import { expect, inject, onTestFinished, test } from 'vitest';
import { startRedisProxy, type RedisProxy } from './redis-proxy.ts';
import { testPrefix, testRedis, until } from './redis.ts';

async function proxied() {
  const proxy: RedisProxy = await startRedisProxy(inject('redisUrl'));
  onTestFinished(() => proxy[Symbol.asyncDispose]());
  return { proxy, redis: await testRedis('work', proxy.url), direct: await testRedis(), key: `${testPrefix()}:n` };
}

test('a dropped reply belongs to a command that took effect, and the client asks again', async () => {
  const { proxy, redis, direct, key } = await proxied();
  const dropped = proxy.dropRepliesOnce();
  const answer = redis.incr(key);
  await dropped;
  expect(await direct.get(key)).toBe('1');
  expect(await answer).toBe(2);
});

test('what is held arrives after the release, and nothing is lost', async () => {
  const { proxy, redis, direct, key } = await proxied();
  proxy.hold();
  const answer = redis.incr(key);
  await direct.ping();
  expect(await direct.get(key)).toBeNull();
  proxy.release();
  expect(await answer).toBe(1);
});

test('a cut ends the connections there are and accepts new ones', async () => {
  const { proxy, redis, key } = await proxied();
  expect(proxy.connections).toBe(1);
  const reconnecting = new Promise((resolve) => redis.once('reconnecting', resolve));
  proxy.cut();
  await reconnecting;
  expect(await redis.incr(key)).toBe(1);
  await until('one connection', () => proxy.connections === 1);
});
