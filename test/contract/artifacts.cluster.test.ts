import { afterAll, beforeAll } from 'vitest';
import { artifactsContract } from './artifacts.ts';
import { redisArtifactsWorld } from './artifacts-redis-world.ts';
import { startOneNodeCluster } from './one-node-cluster.ts';

let server: Awaited<ReturnType<typeof startOneNodeCluster>>;

beforeAll(async () => {
  server = await startOneNodeCluster();
});
afterAll(() => server.stop());

artifactsContract('Redis Cluster', async () => (await redisArtifactsWorld(server.url)).worker);
