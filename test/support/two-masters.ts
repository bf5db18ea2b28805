import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { freePort, startDevRedis, type DevRedis } from '../../src/shared/dev-redis.ts';
import { connect, whenReady, type RedisConnection } from '../../src/shared/redis.ts';
import { until } from './redis.ts';

/** A master of a Cluster that may be ended and started again with its slots. */
export interface ClusterNode {
  readonly port: number;
  readonly bus: number;
  readonly redis: RedisConnection;
  server: DevRedis;
  restart(): Promise<void>;
}

async function startNode(): Promise<ClusterNode> {
  const dir = mkdtempSync(join(tmpdir(), 'millrace-node-'));
  const [port, bus] = [await freePort(), await freePort()];
  const extraArgs = ['--cluster-enabled', 'yes', '--cluster-port', `${bus}`, '--cluster-announce-ip', '127.0.0.1'];
  extraArgs.push('--cluster-require-full-coverage', 'no', '--cluster-node-timeout', '1000');
  const start = () =>
    startDevRedis({ dir, port, env: process.env, root: join(import.meta.dirname, '../..'), extraArgs });
  const node: ClusterNode = {
    port,
    bus,
    server: await start(),
    redis: connect(`redis://127.0.0.1:${port}`, 'work', () => {}),
    async restart() {
      node.server = await start();
    },
  };
  onTestFinished(async () => {
    node.redis.disconnect();
    await node.server.stop();
    rmSync(dir, { recursive: true, force: true });
  });
  await whenReady(node.redis, 20_000);
  return node;
}

/** Two masters that go on without each other; the second owns these slots only. */
export async function startTwoMasters([first, last]: readonly [number, number]): Promise<
  readonly [ClusterNode, ClusterNode]
> {
  const nodes = [await startNode(), await startNode()] as const;
  const [large, small] = nodes;
  const ranges = [
    [0, first - 1],
    [last + 1, 16_383],
  ].filter(([from = 0, to = 0]) => from <= to);
  await large.redis.call('CLUSTER', 'ADDSLOTSRANGE', ...ranges.flat().map(String));
  await small.redis.call('CLUSTER', 'ADDSLOTSRANGE', `${first}`, `${last}`);
  await large.redis.call('CLUSTER', 'MEET', '127.0.0.1', `${small.port}`, `${small.bus}`);
  const isWhole = async ({ redis }: ClusterNode) =>
    /cluster_slots_ok:16384/.test(String(await redis.call('CLUSTER', 'INFO'))) &&
    /cluster_state:ok/.test(String(await redis.call('CLUSTER', 'INFO')));
  await until('the Cluster serves', async () => (await isWhole(large)) && (await isWhole(small)));
  return nodes;
}
