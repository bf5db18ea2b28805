import { afterAll, beforeAll } from 'vitest';
import { rateLimiterContract } from './rate-limiter.ts';
import { redisRateLimiterWorld } from './rate-limiter-redis-world.ts';
import { startOneNodeCluster } from './one-node-cluster.ts';

let server: Awaited<ReturnType<typeof startOneNodeCluster>>;

beforeAll(async () => {
  server = await startOneNodeCluster();
});
afterAll(() => server.stop());

rateLimiterContract('Redis Cluster', () => redisRateLimiterWorld(server.url));
