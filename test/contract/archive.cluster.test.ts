import { afterAll, beforeAll } from 'vitest';
import { archiveContract } from './archive.ts';
import { redisFilesWorld } from './files-redis-world.ts';
import { startOneNodeCluster } from './one-node-cluster.ts';

let server: Awaited<ReturnType<typeof startOneNodeCluster>>;

beforeAll(async () => {
  server = await startOneNodeCluster();
});
afterAll(() => server.stop());

archiveContract('Redis Cluster', () => redisFilesWorld(server.url));
