import { afterAll, beforeAll } from 'vitest';
import { startOneNodeCluster } from '../../contract/one-node-cluster.ts';
import { orphanTests } from './reconcile-orphans.ts';

let server: Awaited<ReturnType<typeof startOneNodeCluster>>;

beforeAll(async () => {
  server = await startOneNodeCluster();
});
afterAll(() => server.stop());

orphanTests('Redis Cluster', () => server.url);
