import { test } from 'vitest';
import { checkPoisonAmong } from '../support/poisoned.ts';
import { makeWorld } from '../support/world.ts';

test('one run whose once tool ends its process among two hundred on three workers is quarantined alone', async () => {
  const world = await makeWorld({ workers: 3, env: { WORKER_CONCURRENCY: '50' } });
  await checkPoisonAmong(world, 200);
});
