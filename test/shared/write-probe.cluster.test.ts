import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { freePort, startDevRedis, type DevRedis } from '../../src/shared/dev-redis.ts';
import { connect, keysFor, whenReady, type RedisConnection } from '../../src/shared/redis.ts';
import { WriteProbe, type WriteProblem } from '../../src/shared/write-probe.ts';
import { until } from '../support/redis.ts';

/** A master of a Cluster that may be ended and started again with its slots. */
interface Node {
  readonly port: number;
  readonly bus: number;
  readonly redis: RedisConnection;
  server: DevRedis;
  restart(): Promise<void>;
}

async function startNode(): Promise<Node> {
  const dir = mkdtempSync(join(tmpdir(), 'millrace-node-'));
  const [port, bus] = [await freePort(), await freePort()];
  const extraArgs = ['--cluster-enabled', 'yes', '--cluster-port', `${bus}`, '--cluster-announce-ip', '127.0.0.1'];
  extraArgs.push('--cluster-require-full-coverage', 'no', '--cluster-node-timeout', '1000');
  const start = () =>
    startDevRedis({ dir, port, env: process.env, root: join(import.meta.dirname, '../..'), extraArgs });
  const node: Node = {
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
  await whenReady(node.redis, 5_000);
  return node;
}

/** Two masters; the second owns a single range of a few slots, which few hash tags fall into. */
async function startCluster(): Promise<readonly [Node, Node]> {
  const nodes = [await startNode(), await startNode()] as const;
  const [large, small] = nodes;
  await large.redis.call('CLUSTER', 'ADDSLOTSRANGE', '0', '16374');
  await small.redis.call('CLUSTER', 'ADDSLOTSRANGE', '16375', '16383');
  await large.redis.call('CLUSTER', 'MEET', '127.0.0.1', `${small.port}`, `${small.bus}`);
  const isWhole = async ({ redis }: Node) =>
    /cluster_slots_ok:16384/.test(String(await redis.call('CLUSTER', 'INFO'))) &&
    /cluster_state:ok/.test(String(await redis.call('CLUSTER', 'INFO')));
  await until('the Cluster serves', async () => (await isWhole(large)) && (await isWhole(small)));
  return nodes;
}

test('each master of a Cluster is written to: one that is full or away is told of, until it is well again', async () => {
  const [large, small] = await startCluster();
  const redis = connect(`redis+cluster://127.0.0.1:${large.port}`, 'command', () => {});
  onTestFinished(() => redis.disconnect());
  await whenReady(redis, 5_000);
  const look = (): Promise<WriteProblem | undefined> => new WriteProbe(redis, keysFor('mr')).look();
  await until('writes go through', async () => (await look()) === undefined);
  expect(await large.redis.keys('mr:{*}:writable')).toHaveLength(1);
  const [onSmall = ''] = await small.redis.keys('mr:{*}:writable');
  expect(await small.redis.pttl(onSmall)).toBeGreaterThan(0);

  await small.redis.call('CONFIG', 'SET', 'maxmemory', '1');
  const reason = expect.stringMatching(/^1 of the 2 masters of the Cluster: Redis is full: raise/);
  expect(await look()).toEqual({ redis: 'refuses', reason });
  await small.redis.call('CONFIG', 'SET', 'maxmemory', '0');
  expect(await look()).toBeUndefined();

  await small.server.stop('SIGKILL');
  const away = await until('the missing node is told of', look);
  expect(away.reason).toMatch(/^1 of the 2 masters of the Cluster/);
  await small.restart();
  await until('writes go through again', async () => (await look()) === undefined);
});
