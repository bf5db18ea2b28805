import { afterAll, beforeAll } from 'vitest';
import { startOneNodeCluster } from './one-node-cluster.ts';
import { threadsContract } from './threads.ts';
import { threadsLists } from './threads-lists.ts';
import { redisThreadsWorld } from './threads-redis-world.ts';

let server: Awaited<ReturnType<typeof startOneNodeCluster>>;

beforeAll(async () => {
  server = await startOneNodeCluster();
});
afterAll(() => server.stop());

threadsContract('Redis Cluster', () => redisThreadsWorld(server.url));
threadsLists(() => redisThreadsWorld(server.url));
