import { afterAll, beforeAll, expect, test } from 'vitest';
import { parseEvent } from '../../src/shared/contract/event.ts';
import { startOneNodeCluster } from './one-node-cluster.ts';
import { aCommit } from './run-fixtures.ts';
import { claimed, seeded } from './store-world.ts';
import { decisionsContract } from './decisions.ts';
import { waitsContract } from './waits.ts';
import { redisWaitsWorld } from './waits-redis-world.ts';

let server: Awaited<ReturnType<typeof startOneNodeCluster>>;

beforeAll(async () => {
  server = await startOneNodeCluster();
});
afterAll(() => server.stop());

waitsContract('Redis Cluster', () => redisWaitsWorld(server.url));
decisionsContract('Redis Cluster', () => redisWaitsWorld(server.url));

test('run.resumed reaches the lifecycle stream in another slot, with the number it has in the log', async () => {
  const world = await redisWaitsWorld(server.url);
  const runId = await seeded(world);
  const { owner } = await claimed(world, runId);
  await world.runs.commit({ runId, owner }, aCommit(3, { patch: { status: 'suspended' }, release: 'suspended' }));
  await world.waits.resume(runId, { summary: 'approved' });
  const entries = await world.redis.xrange(world.keys.lifecycle, '-', '+');
  const lifecycle = entries.map(([, [, json = '']]) => parseEvent(json));
  expect(lifecycle).toContainEqual((await world.events(runId)).at(-1));
});
