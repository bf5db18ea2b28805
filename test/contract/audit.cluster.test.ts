import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { redisSupervision } from '../../src/shared/state/run/supervision.ts';
import { aFinding } from './audit-events.ts';
import { audited, auditContract } from './audit.ts';
import { until } from '../support/redis.ts';
import { runKeySpace } from '../support/run-key-space.ts';
import { startOneNodeCluster } from './one-node-cluster.ts';
import { redisWorld } from './redis-world.ts';
import { claimed, seeded } from './store-world.ts';

let server: Awaited<ReturnType<typeof startOneNodeCluster>>;

beforeAll(async () => {
  server = await startOneNodeCluster();
});
afterAll(() => server.stop());

const makeWorld = () => redisWorld(server.url);

auditContract('Redis Cluster', makeWorld);

test('the reconciler moves an entry that a dead process left with its run, once', async () => {
  const world = await makeWorld();
  const { redis, keys } = world;
  const runId = await seeded(world, { tenant: 'shop' });
  const own = { runId, owner: (await claimed(world, runId)).owner, tenant: 'shop' };
  // Another type at its key: the stream of the tenant refuses every entry.
  await redis.set(keys.audit('shop'), 'x');
  await world.runs.flush(own, 3, [aFinding(runId, 'c1')]);
  expect(await redis.xlen(keys.unpublished(runId))).toBeGreaterThan(0);
  await redis.del(keys.audit('shop'));

  const supervision = redisSupervision(runKeySpace(redis, keys, true));
  const look = async () => {
    await redis.zadd(keys.checks, 0, runId);
    return await supervision.dueRuns(10);
  };
  expect(await look()).toMatchObject([{ runId, unpublished: false }]);
  expect(await audited(world, 'shop')).toMatchObject([{ runId, sequenceNumber: 4 }]);
  expect(await redis.exists(keys.unpublished(runId))).toBe(0);
});

test('a worker that is killed between an event and its entry in the stream of the tenant loses neither', async () => {
  const world = await makeWorld();
  const { redis, keys } = world;
  const runId = await seeded(world, { tenant: 'shop' });
  const { owner } = await claimed(world, runId);
  const script = join(import.meta.dirname, '../fixtures/audit-writer.ts');
  const prefix = keys.firehose.slice(0, -':firehose'.length);
  const child = spawn(process.execPath, [script, server.url, prefix, runId, owner, 'c1'], { stdio: 'ignore' });
  expect(await once(child, 'exit')).toEqual([null, 'SIGKILL']);
  expect((await world.events(runId)).at(-1)).toMatchObject({ type: 'dataflow.flagged', toolCallId: 'c1' });
  expect(await audited(world, 'shop')).toEqual([]);
  await redis.zadd(keys.checks, 0, runId);
  await redisSupervision(runKeySpace(redis, keys, true)).dueRuns(10);
  expect(await audited(world, 'shop')).toMatchObject([{ runId, sequenceNumber: 4, toolCallId: 'c1' }]);
});

test('an entry that two processes move at the same time, or one again after the other died, comes once', async () => {
  const world = await makeWorld();
  const { redis, keys } = world;
  const entry = JSON.stringify({ tenant: 'shop', kind: 'other' });
  for (let i = 0; i < 60; i++) await redis.xadd(keys.unpublished('r'), '*', 'a', entry);
  const left = await redis.xrange(keys.unpublished('r'), '-', '+');
  const processes = [1, 2, 3].map(() => runKeySpace(redis, keys, true));
  await Promise.all(processes.map(({ lifecycle }) => lifecycle.publish('r')));
  // On a busy machine a caller does not wait for all of it.
  const [again] = processes;
  await until('all is moved', async () => await again?.lifecycle.publish('r'));
  expect(await redis.xlen(keys.audit('shop'))).toBe(60);
  // What a process leaves that dies before it has removed what it moved.
  for (const [id, fields] of left) await redis.xadd(keys.unpublished('r'), id, ...fields);
  await until('all is moved again', async () => await again?.lifecycle.publish('r'));
  expect(await redis.exists(keys.unpublished('r'))).toBe(0);
  expect(await redis.xlen(keys.audit('shop'))).toBe(60);
});
