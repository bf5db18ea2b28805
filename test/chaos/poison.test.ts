import { expect, test } from 'vitest';
import { keepAlive } from '../support/platform.ts';
import { checkPoisonAmong } from '../support/poisoned.ts';
import { until } from '../support/redis.ts';
import { makeWorld } from '../support/world.ts';

test('a run that ends every process it touches harms no neighbour and fails in quarantine', async () => {
  const world = await makeWorld();
  const platform = keepAlive(world);
  const neighbours = await Promise.all(
    Array.from({ length: 4 }, (_, i) =>
      world.submit('hands', [
        { calls: [{ name: 'put', args: { id: `n${i}`, gate: 'neighbours' } }] },
        { text: 'Unharmed.' },
      ]),
    ),
  );
  await until('the neighbours work', () => world.fleet.executions.length === neighbours.length);
  const poison = await world.submit('hands', [
    { calls: [{ name: 'poison', args: { id: 'x' } }] },
    { text: 'unreachable' },
  ]);
  const deaths = () => world.fleet.executions.filter(({ tool }) => tool === 'poison').length;
  await until('three workers have died of it', () => deaths() >= 3, 60_000);
  world.fleet.openGate('neighbours');
  for (const neighbour of neighbours) {
    expect((await world.ended(neighbour)).view).toMatchObject({ status: 'completed', result: { text: 'Unharmed.' } });
  }
  const { view } = await world.ended(poison);
  expect(view).toMatchObject({ status: 'failed', error: { code: 'worker_lost', retryable: false } });
  // Three in the common queue, two in quarantine, and the common workers live on.
  expect(deaths()).toBe(5);
  expect(platform.restarts).toBe(3);
  expect((await world.mill.diagnose()).counters, 'no neighbour was in quarantine').toMatchObject({ quarantined: 1 });
});

test('one run whose once tool ends its process among forty on three workers is quarantined alone', async () => {
  const world = await makeWorld({ workers: 3, env: { WORKER_CONCURRENCY: '20', LOCK_DURATION_MS: '3000' } });
  await checkPoisonAmong(world, 40);
});
