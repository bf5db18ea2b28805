import { afterAll, beforeAll } from 'vitest';
import { startOneNodeCluster } from './one-node-cluster.ts';
import { toolPinsContract } from './tool-pins.ts';
import { redisPinsWorld } from './tool-pins-redis-world.ts';

let server: Awaited<ReturnType<typeof startOneNodeCluster>>;

beforeAll(async () => {
  server = await startOneNodeCluster();
});
afterAll(() => server.stop());

toolPinsContract('Redis Cluster', () => redisPinsWorld(server.url));
