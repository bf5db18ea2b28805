import { expect, test } from 'vitest';
import { openMedia } from '../../src/shared/state/results/media-store.ts';
import { filesWorld } from './files-world.ts';
import { mediaContract } from './media-store.ts';

async function makeWorld() {
  const world = await filesWorld({ kind: 'redis' });
  const { deps } = await world.process();
  return { ...world, media: openMedia({ ...deps, ttlS: 100 }) };
}

mediaContract('Redis', async () => (await makeWorld()).media);

test('a file is kept for the time that results are, from when it was last made, or for longer when that is asked', async () => {
  const { redis, keys, media } = await makeWorld();
  const sha256 = await media.put('a', Buffer.from('x'), 'image/png');
  const key = keys.media('a', sha256);
  expect(await redis.ttl(key)).toBeGreaterThan(90);
  await redis.expire(key, 5);
  await media.put('a', Buffer.from('x'), 'image/png');
  expect(await redis.ttl(key)).toBeGreaterThan(90);
  await media.put('a', Buffer.from('x'), 'image/png', 1_000);
  await media.keep('a', sha256, 50);
  await media.put('a', Buffer.from('x'), 'image/png');
  expect(await redis.ttl(key)).toBeGreaterThan(990);
  await media.keep('a', sha256, 5_000);
  expect(await redis.ttl(key)).toBeGreaterThan(4_990);
});
