import { afterAll, beforeAll } from 'vitest';
import { startOneNodeCluster } from './one-node-cluster.ts';
import { progressContract } from './progress-notes.ts';
import { redisProgressWorld } from './progress-redis-world.ts';

let server: Awaited<ReturnType<typeof startOneNodeCluster>>;

beforeAll(async () => {
  server = await startOneNodeCluster();
});
afterAll(() => server.stop());

progressContract('Redis Cluster', async () => (await redisProgressWorld({ url: server.url })).worker);
