import { expect, test } from 'vitest';
import { loadScript, runScript } from '../../../../../src/shared/state/script.ts';
import { keysFor } from '../../../../../src/shared/state/keys.ts';
import { testPrefix, testRedis } from '../../../../support/redis.ts';

const poll = loadScript(
  new URL('../../../../../src/shared/state/limits/rate/limiters.ts', import.meta.url).href,
  './poll.lua',
);
const parts = ['state', 'window', 'queue', 'waiters', 'tenants', 'past', 'leases', 'grants', 'seats', 'wake'];

test('ten thousand waiters of one process are answered in one poll', async () => {
  const redis = await testRedis();
  const keys = keysFor(testPrefix());
  const pairs = Array.from({ length: 10_000 }, (_, i) => [`run-${i}`, `grant-${i}`]).flat();
  const limiter = parts.map((part) => keys.limiter('key:model', part));
  const reply = await runScript(redis, poll, limiter, [60, 0, 0, 60_000, pairs.length / 2, ...pairs], {
    doing: 'poll',
  });
  expect((reply as readonly unknown[]).slice(1)).toEqual(Array.from({ length: 10_000 }, () => [4]));
});
