import { afterAll, beforeAll } from 'vitest';
import { governorContract } from './rate-limiter.ts';
import { redisGovernorWorld } from './rate-limiter-redis-world.ts';
import { startOneNodeCluster } from './one-node-cluster.ts';

let server: Awaited<ReturnType<typeof startOneNodeCluster>>;

beforeAll(async () => {
  server = await startOneNodeCluster();
});
afterAll(() => server.stop());

governorContract('Redis Cluster', () => redisGovernorWorld(server.url));
