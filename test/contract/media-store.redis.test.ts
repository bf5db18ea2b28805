import { expect, test } from 'vitest';
import { redisMedia } from '../../src/shared/state/results/media-store.ts';
import { mediaContract } from './media-store.ts';
import { redisWorld } from './redis-world.ts';

async function makeWorld() {
  const { redis, keys } = await redisWorld();
  return {
    redis,
    keys,
    media: redisMedia({ redis, keys, ttlS: 100 }),
    async read(tenant: string, sha256: string) {
      const [type, bytes] = await redis.hmgetBuffer(keys.media(tenant, sha256), 'type', 'bytes');
      return type && bytes ? { mediaType: type.toString(), bytes } : undefined;
    },
  };
}

mediaContract('Redis', makeWorld);

test('a file is kept for the time that results are, from when it was last made', async () => {
  const { redis, keys, media } = await makeWorld();
  const key = keys.media('a', await media.put('a', Buffer.from('x'), 'image/png'));
  expect(await redis.ttl(key)).toBeGreaterThan(90);
  await redis.expire(key, 5);
  await media.put('a', Buffer.from('x'), 'image/png');
  expect(await redis.ttl(key)).toBeGreaterThan(90);
});
