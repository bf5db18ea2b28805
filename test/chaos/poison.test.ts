import { expect, onTestFinished, test } from 'vitest';
import { until } from '../support/redis.ts';
import { makeWorld, type World } from '../support/world.ts';

/** Starts a new worker whenever one has gone, as every platform does. */
function keepAlive(world: World): { readonly restarts: number } {
  let open = true;
  let restarts = 0;
  const watch = async () => {
    for (let worker = world.worker; ; restarts++) {
      await worker.exited;
      if (!open) return;
      worker = await world.addWorker();
    }
  };
  void watch();
  onTestFinished(() => void (open = false));
  return {
    get restarts() {
      return restarts;
    },
  };
}

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
  await until('two workers have died of it', () => deaths() >= 2, 30_000);
  world.fleet.openGate('neighbours');
  for (const neighbour of neighbours) {
    expect((await world.ended(neighbour)).view).toMatchObject({ status: 'completed', result: { text: 'Unharmed.' } });
  }
  const { view } = await world.ended(poison);
  expect(view).toMatchObject({ status: 'failed', error: { code: 'worker_lost', retryable: false } });
  // Two in the common queue, two in quarantine, and the common workers live on.
  expect(deaths()).toBe(4);
  expect(platform.restarts).toBe(2);
  expect((await world.mill.diagnose()).counters).toMatchObject({ quarantined: expect.any(Number) });
});
