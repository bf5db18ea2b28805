import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { startDevRedis, type DevRedis } from '../../src/producer/cli/stack/dev-redis.ts';
import { freePort } from './scratch-redis.ts';
import { connect, whenReady, type RedisConnection } from '../../src/shared/state/connect.ts';
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

/** Slots, the last one included. */
type SlotRange = readonly [first: number, last: number];

/** Two masters that go on without each other; the second owns these slots only. */
export async function startTwoMasters(owned: SlotRange): Promise<readonly [ClusterNode, ClusterNode]> {
  const [large, small] = await startMasters([owned]);
  return [large as ClusterNode, small as ClusterNode];
}

/** Masters of one Cluster: each but the first owns one of these ranges, in ascending order, and the first what is left. */
export async function startMasters(owned: readonly SlotRange[]): Promise<readonly ClusterNode[]> {
  const large = await startNode();
  const others: ClusterNode[] = [];
  let next = 0;
  const rest: SlotRange[] = [];
  for (const [first, last] of owned) {
    const node = await startNode();
    await node.redis.call('CLUSTER', 'ADDSLOTSRANGE', `${first}`, `${last}`);
    await large.redis.call('CLUSTER', 'MEET', '127.0.0.1', `${node.port}`, `${node.bus}`);
    others.push(node);
    rest.push([next, first - 1]);
    next = last + 1;
  }
  rest.push([next, 16_383]);
  const ranges = rest.filter(([first, last]) => first <= last);
  await large.redis.call('CLUSTER', 'ADDSLOTSRANGE', ...ranges.flat().map(String));
  const nodes = [large, ...others];
  const isWhole = async ({ redis }: ClusterNode) => {
    const info = String(await redis.call('CLUSTER', 'INFO'));
    return info.includes('cluster_slots_ok:16384') && info.includes('cluster_state:ok');
  };
  await until('the Cluster serves', async () => (await Promise.all(nodes.map(isWhole))).every(Boolean));
  return nodes;
}
