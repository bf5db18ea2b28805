import { freePort, startScratchRedis } from '../support/scratch-redis.ts';
import { connect, whenReady } from '../../src/shared/state/connect.ts';
import { until } from '../support/redis.ts';

/** One node that serves every slot: enough to check the rules of a Cluster for scripts and channels. */
export async function startOneNodeCluster(): Promise<{ readonly url: string; stop(): Promise<void> }> {
  const bus = [
    '--cluster-enabled',
    'yes',
    '--cluster-port',
    `${await freePort()}`,
    '--cluster-announce-ip',
    '127.0.0.1',
  ];
  const server = await startScratchRedis({ extraArgs: bus });
  const node = connect(server.url, 'command', () => {});
  await whenReady(node, 20_000);
  await node.call('CLUSTER', 'ADDSLOTSRANGE', '0', '16383');
  await until('the Cluster to serve', async () =>
    String(await node.call('CLUSTER', 'INFO')).includes('cluster_state:ok'),
  );
  node.disconnect();
  return { url: server.url.replace('redis:', 'redis+cluster:'), stop: () => server.stop() };
}
