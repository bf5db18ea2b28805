import { afterAll, beforeAll } from 'vitest';
import { breakersContract } from './breakers.ts';
import { redisBreakersWorld } from './breakers-redis-world.ts';
import { startOneNodeCluster } from './one-node-cluster.ts';

let server: Awaited<ReturnType<typeof startOneNodeCluster>>;

beforeAll(async () => {
  server = await startOneNodeCluster();
});
afterAll(() => server.stop());

breakersContract('Redis Cluster', () => redisBreakersWorld(server.url));
