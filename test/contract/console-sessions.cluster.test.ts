import { afterAll, beforeAll } from 'vitest';
import { consoleSessionsContract } from './console-sessions.ts';
import { startOneNodeCluster } from './one-node-cluster.ts';

let server: Awaited<ReturnType<typeof startOneNodeCluster>>;

beforeAll(async () => {
  server = await startOneNodeCluster();
});
afterAll(() => server.stop());

consoleSessionsContract('Redis Cluster', () => server.url);
