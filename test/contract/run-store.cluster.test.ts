import { afterAll, beforeAll, expect, test } from 'vitest';
import type { DevRedis } from '../../src/producer/cli/stack/dev-redis.ts';
import { freePort, startScratchRedis } from '../support/scratch-redis.ts';
import { parseEvent } from '../../src/shared/contract/event.ts';
import { connect, whenReady } from '../../src/shared/state/connect.ts';
import { until } from '../support/redis.ts';
import { redisWorld } from './redis-world.ts';
import { aTerminalCommit, delta } from './run-fixtures.ts';
import { runStoreContract } from './run-store.ts';
import { claimed, seeded } from './store-world.ts';

let server: DevRedis;

/** One node that serves every slot: enough to check the rules of a Cluster for scripts and channels. */
beforeAll(async () => {
  const bus = [
    '--cluster-enabled',
    'yes',
    '--cluster-port',
    `${await freePort()}`,
    '--cluster-announce-ip',
    '127.0.0.1',
  ];
  server = await startScratchRedis({ extraArgs: bus });
  const node = connect(server.url, 'command', () => {});
  await whenReady(node, 20_000);
  await node.call('CLUSTER', 'ADDSLOTSRANGE', '0', '16383');
  await until('the Cluster to serve', async () =>
    String(await node.call('CLUSTER', 'INFO')).includes('cluster_state:ok'),
  );
  node.disconnect();
});

afterAll(() => server.stop());

const makeWorld = () => redisWorld(server.url.replace('redis:', 'redis+cluster:'));

runStoreContract('Redis Cluster', makeWorld);

test('lifecycle events reach their stream in another slot, with the numbers they have in the log', async () => {
  const world = await makeWorld();
  const runId = await seeded(world);
  const { owner } = await claimed(world, runId);
  await world.runs.flush({ runId, owner }, 3, [delta(runId, 'a')]);
  await world.runs.commit({ runId, owner }, aTerminalCommit(runId, 4));
  const entries = await until('two lifecycle events', async () => {
    const stream = await world.redis.xrange(world.keys.lifecycle, '-', '+');
    return stream.length >= 2 ? stream : undefined;
  });
  const lifecycle = entries.map(([, [, json = '']]) => parseEvent(json));
  const log = await world.events(runId);
  expect(lifecycle).toEqual(log.filter((event) => event.type === 'run.started' || event.type === 'run.completed'));
});
