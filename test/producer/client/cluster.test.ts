import { onTestFinished, expect, test } from 'vitest';
import { Millrace } from '../../../src/producer/client/millrace.ts';
import { startScratchRedis } from '../../support/scratch-redis.ts';
import { connect, whenReady } from '../../../src/shared/state/connect.ts';
import { bullPrefix, keysFor } from '../../../src/shared/state/keys.ts';
import { until } from '../../support/redis.ts';
import { request, type ClientWorld } from '../cli/options/client.ts';
import { suspendedRun } from '../support/suspended.ts';

/** A Cluster of one node: every rule about slots and sharded channels holds there as well. */
async function clusterWorld(): Promise<ClientWorld> {
  const server = await startScratchRedis({
    extraArgs: ['--cluster-enabled', 'yes', '--cluster-announce-ip', '127.0.0.1'],
  });
  onTestFinished(() => server.stop());
  const node = connect(server.url, 'work', () => {});
  onTestFinished(() => node.disconnect());
  await node.call('CLUSTER', 'ADDSLOTSRANGE', '0', '16383');
  await until('the cluster is up', async () => String(await node.call('CLUSTER', 'INFO')).includes('cluster_state:ok'));
  const url = server.url.replace('redis:', 'redis+cluster:');
  const redis = connect(url, 'work', () => {});
  onTestFinished(() => redis.disconnect());
  await whenReady(redis, 20_000);
  const mill = new Millrace({ redis: url });
  onTestFinished(() => mill.close());
  const bull = (queue: string, rest: string) => `${bullPrefix('mr', true)}:${queue}:${rest}`;
  return { mill, prefix: 'mr', redis, keys: keysFor('mr'), bull };
}

test('in a Cluster runs are accepted, followed over a sharded channel, listed, cancelled and diagnosed', async () => {
  const { mill, redis, keys } = await clusterWorld();
  const run = await mill.enqueue({ ...request, executionId: 'e' });
  const answers = await mill.enqueueMany(Array.from({ length: 30 }, () => request));
  expect(answers.filter((answer) => 'runId' in answer)).toHaveLength(30);

  const types: string[] = [];
  const followed = (async () => {
    for await (const event of run.events()) types.push(event.type);
  })();
  await until(
    'subscribed',
    async () => Number(((await redis.call('PUBSUB', 'SHARDNUMSUB', keys.live(run.runId))) as unknown[])[1]) === 1,
  );
  const all: string[] = [];
  const stop = new AbortController();
  const firehose = (async () => {
    for await (const event of mill.firehose({ signal: stop.signal })) all.push(event.type);
  })();
  await until(
    'subscribed',
    async () => Number(((await redis.call('PUBSUB', 'NUMSUB', keys.firehose)) as unknown[])[1]) === 1,
  );
  expect(await run.cancel()).toMatchObject({ status: 'cancelled' });
  await followed;
  expect(types).toEqual(['run.queued', 'execution.started', 'run.cancelled']);
  await until('the firehose', () => all.includes('run.cancelled'));
  stop.abort();
  await firehose;

  expect((await mill.list({ limit: 100 })).runs).toHaveLength(31);
  expect((await mill.queueDepths())['runs']).toMatchObject({ waiting: 30 });
  expect(await mill.diagnose()).toMatchObject({ openRuns: 30, redis: { mode: 'cluster' } });
  const lifecycle = await redis.xrange(keys.lifecycle, '-', '+');
  expect(lifecycle).toHaveLength(32);
  expect(JSON.parse(lifecycle.at(-1)?.[1][1] as string)).toMatchObject({
    v: 1,
    sequenceNumber: 3,
    type: 'run.cancelled',
  });
});

test('in a Cluster a run that waits for money is decided about, and budgets are kept', async () => {
  const world = await clusterWorld();
  const { mill, redis, keys, bull } = world;
  await mill.budgets.set('batch', 'b1', { maxCostMicrocents: 100 });
  expect(await mill.budgets.topUp('batch', 'b1', { microcents: 50 })).toMatchObject({ capMicrocents: 150 });
  const run = await suspendedRun(world, [{ kind: 'budget', id: 'batch:b1' }]);
  expect((await run.topUp(1)).budget).toMatchObject({ capMicrocents: 100_000_150 });
  expect((await run.approve()).run).toMatchObject({ status: 'queued', lastSequence: 3 });
  expect(await redis.lrange(bull('runs', 'wait'), 0, -1)).toContain(`${run.runId}-s1`);
  const lifecycle = await redis.xrange(keys.lifecycle, '-', '+');
  expect(JSON.parse(lifecycle.at(-1)?.[1][1] as string)).toMatchObject({ sequenceNumber: 3, type: 'run.resumed' });
  expect((await mill.costs()).totals.costMicrocents).toBe(0);
});

test('in a Cluster calls are decided about one by one, listed, and cancelled', async () => {
  const world = await clusterWorld();
  const { mill, redis, keys, bull } = world;
  const call = { kind: 'approval', toolName: 'transfer' } as const;
  const run = await suspendedRun(world, [
    { ...call, id: 'c1' },
    { ...call, id: 'c2' },
  ]);
  expect((await run.approve({ calls: 'c1', by: 'kim' })).run).toMatchObject({ status: 'queued', lastSequence: 3 });
  expect(await redis.lrange(bull('runs', 'wait'), 0, -1)).toContain(`${run.runId}-s1`);
  expect((await mill.approvals()).approvals).toMatchObject([{ runId: run.runId, toolCallId: 'c2' }]);
  const lifecycle = await redis.xrange(keys.lifecycle, '-', '+');
  expect(JSON.parse(lifecycle.at(-1)?.[1][1] as string)).toMatchObject({ sequenceNumber: 3, type: 'run.resumed' });
  expect(await run.cancel({ onPendingApprovals: 'hold' })).toMatchObject({ status: 'queued', lastSequence: 4 });
  expect(await run.cancel()).toMatchObject({ status: 'cancelled', lastSequence: 9 });
  expect((await mill.approvals()).approvals).toEqual([]);
});
