import { afterAll, beforeAll } from 'vitest';
import { ledgerContract } from './ledger.ts';
import { redisLedgerWorld } from './ledger-redis-world.ts';
import { startOneNodeCluster } from './one-node-cluster.ts';

let server: Awaited<ReturnType<typeof startOneNodeCluster>>;

beforeAll(async () => {
  server = await startOneNodeCluster();
});
afterAll(() => server.stop());

ledgerContract('Redis Cluster', (tenants) => redisLedgerWorld(tenants, server.url));
