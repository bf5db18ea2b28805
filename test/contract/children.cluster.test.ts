import { afterAll, beforeAll } from 'vitest';
import { childrenContract } from './children.ts';
import { redisChildrenWorld } from './children-redis-world.ts';
import { startOneNodeCluster } from './one-node-cluster.ts';

let server: Awaited<ReturnType<typeof startOneNodeCluster>>;

beforeAll(async () => {
  server = await startOneNodeCluster();
});
afterAll(() => server.stop());

childrenContract('Redis Cluster', () => redisChildrenWorld(server.url));
