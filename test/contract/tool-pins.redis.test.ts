import { expect, test } from 'vitest';
import { redisToolPins } from '../../src/shared/state/pins/tool-pins.ts';
import { offered, pinsTtlMs, server, toolPinsContract } from './tool-pins.ts';
import { redisPinsWorld } from './tool-pins-redis-world.ts';

toolPinsContract('Redis', () => redisPinsWorld());

test('pins are kept for their time after the last use, and a server without any is not listed', async () => {
  const { keys, redis, clock, worker } = await redisPinsWorld();
  const pins = await worker();
  await pins.check('acme', server, [offered('read')]);
  const names = [keys.pinnedServers('acme'), keys.pins('acme', server.id)];
  for (const name of names) await redis.pexpire(name, 5_000);
  await pins.check('acme', server, [offered('read')]);
  for (const name of names) expect(await redis.pttl(name)).toBeGreaterThan(pinsTtlMs - 60_000);
  await redis.del(keys.pins('acme', server.id));
  expect(await pins.list('acme')).toEqual([]);
  await clock.advance(pinsTtlMs);
  await pins.check('acme', { ...server, id: 'b'.repeat(32) }, []);
  expect(await redis.zrange(keys.pinnedServers('acme'), '0', '-1')).toEqual(['b'.repeat(32)]);
});

test('a Redis that is away is queue_unavailable', async () => {
  const { redis, keys, clock } = await redisPinsWorld();
  redis.disconnect();
  const pins = redisToolPins({ redis, keys, clock });
  await expect(pins.check('acme', server, [])).rejects.toMatchObject({ code: 'queue_unavailable' });
  await expect(pins.list('acme')).rejects.toMatchObject({ code: 'queue_unavailable' });
});
