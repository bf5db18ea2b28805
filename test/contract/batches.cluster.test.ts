import { afterAll, beforeAll } from 'vitest';
import { batchesContract } from './batches.ts';
import { redisBatchesWorld } from './batches-redis-world.ts';
import { startOneNodeCluster } from './one-node-cluster.ts';

let server: Awaited<ReturnType<typeof startOneNodeCluster>>;

beforeAll(async () => {
  server = await startOneNodeCluster();
});
afterAll(() => server.stop());

batchesContract('Redis Cluster', () => redisBatchesWorld(server.url));
