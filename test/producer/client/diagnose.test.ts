import { systemClock } from '../../../src/shared/base/clock.ts';
import { enterThread } from '../../../src/shared/state/thread/lock.ts';
import { onTestFinished, expect, test } from 'vitest';
import { Millrace } from '../../../src/producer/client/millrace.ts';
import { jobIdFor } from '../../../src/shared/base/ids.ts';
import { quarantineQueue } from '../../../src/shared/contract/queues.ts';
import { OwnRedis } from '../../support/own-redis.ts';
import { testRedis } from '../../support/redis.ts';
import { clientWorld, request } from '../cli/options/client.ts';
import { suspendedRun } from '../support/suspended.ts';

const longAgo = () => new Date(Date.now() - 120_000).toISOString();

test('the diagnosis shows what Redis is, and how much an accepted run survives', async () => {
  const { mill } = await clientWorld();
  const { redis, durability } = await mill.diagnose();
  expect(redis).toMatchObject({
    aof: true,
    appendfsync: 'everysec',
    maxmemoryPolicy: 'noeviction',
    mode: 'standalone',
  });
  expect(redis.version).toMatch(/^\d+\.\d+/);
  expect(redis.usedMemoryBytes).toBeGreaterThan(0);
  expect(Math.abs(redis.clockOffsetMs)).toBeLessThan(1_000);
  expect(durability).toBe('process');
});

test('the level of durability follows the settings of Redis', async () => {
  const server = await OwnRedis.start();
  const mill = new Millrace({ redis: server.url });
  onTestFinished(() => mill.close());
  const admin = await testRedis('work', server.url);
  const level = async () => (await mill.diagnose()).durability;
  await admin.config('SET', 'appendfsync', 'always');
  expect(await level()).toBe('host');
  await admin.config('SET', 'maxmemory-policy', 'allkeys-lru');
  expect(await level()).toBe('none');
  await admin.config('SET', 'maxmemory-policy', 'noeviction');
  await admin.config('SET', 'appendonly', 'no');
  expect(await level()).toBe('none');
});

test('only open runs without a job that have not changed for a minute are stuck', async () => {
  const { mill, redis, keys, bull } = await clientWorld();
  const [lost, waiting, recent, suspended, ended] = await Promise.all(
    Array.from({ length: 5 }, () => mill.enqueue(request)),
  );
  const age = (runId: string, fields: Record<string, string> = {}) =>
    redis.hset(keys.run(runId), { updatedAt: longAgo(), ...fields });
  for (const run of [lost, recent, suspended, ended])
    await redis.lrem(bull('runs', 'wait'), 0, jobIdFor(run!.runId, 0));
  await age(lost!.runId);
  await age(waiting!.runId);
  await age(suspended!.runId, { status: 'suspended' });
  await age(ended!.runId, { status: 'completed' });

  const { stuckRuns, openRuns, oldestQueuedMs } = await mill.diagnose();
  expect(stuckRuns).toEqual([{ runId: lost!.runId, tenant: 'default', status: 'queued', ageMs: expect.any(Number) }]);
  expect(openRuns).toBe(5);
  expect(oldestQueuedMs['runs']).toBeGreaterThanOrEqual(120_000);
  expect(recent!.status).toBe('queued');
});

test('workers are those with a recent heartbeat, and their queues are counted', async () => {
  const { mill, redis, keys, bull } = await clientWorld({ queues: ['runs', 'batch'] });
  await redis.zadd(keys.workers, Date.now(), 'w1', Date.now() - 60_000, 'w2', Date.now(), 'w3');
  const info = {
    name: 'w1',
    queues: ['runs', 'batch'],
    concurrency: 50,
    active: 3,
    version: '1.0.0',
    startedAt: longAgo(),
  };
  await redis.hset(keys.workerInfo, 'w1', JSON.stringify(info), 'w2', '{}');
  await mill.enqueueMany([request, { ...request, priority: 1 }, { ...request, queue: 'batch', delayMs: 60_000 }]);
  await redis.rpush(bull(quarantineQueue, 'wait'), 'poison');
  await redis.hset(keys.counters, 'requeued', '2');
  await redis.rpush(bull('batch-postrun', 'wait'), 'title-1');

  const diagnosis = await mill.diagnose();
  expect(diagnosis.workers).toEqual([
    {
      name: 'w1',
      heartbeatAgeMs: expect.any(Number),
      queues: ['runs', 'batch'],
      concurrency: 50,
      active: 3,
      version: '1.0.0',
      providers: [],
    },
    {
      name: 'w3',
      heartbeatAgeMs: expect.any(Number),
      queues: [],
      concurrency: 0,
      active: 0,
      version: '',
      providers: [],
    },
  ]);
  expect(diagnosis.queues).toMatchObject({
    runs: { waiting: 2, active: 0, delayed: 0, failed: 0, workers: 1 },
    batch: { waiting: 0, delayed: 1, workers: 1 },
    'batch-postrun': { waiting: 1, active: 0, delayed: 0, failed: 0, workers: 1 },
    maintenance: { workers: 2 },
    quarantine: { workers: 0 },
  });
  expect(Object.keys(diagnosis.queues).toSorted()).toEqual([
    'batch',
    'batch-postrun',
    'maintenance',
    'quarantine',
    'runs',
    'runs-postrun',
  ]);
  expect(diagnosis.quarantined).toBe(1);
  expect(diagnosis.counters).toEqual({ requeued: 2 });
  expect(await mill.queueDepths()).toEqual(diagnosis.queues);
});

test('without an open run nothing is queued or stuck', async () => {
  const { mill } = await clientWorld();
  expect(await mill.diagnose()).toMatchObject({ openRuns: 0, stuckRuns: [], workers: [], quarantined: 0 });
  expect((await mill.diagnose()).oldestQueuedMs).toEqual({});
});

test('the diagnosis shows what runs wait for beside a worker: models that fail, limits of providers, money, people', async () => {
  const world = await clientWorld();
  const { mill, redis, keys } = world;
  await redis.sadd(keys.breakers, 'acme/down', 'acme/up');
  await redis.hset(keys.breaker('acme/down'), { failures: 5, openUntil: Date.now() + 60_000 });
  await redis.hset(keys.breaker('acme/up'), { failures: 2, openUntil: '' });
  await redis.sadd(keys.limiters, 'key:model', 'key:idle');
  await redis.zadd(keys.limiter('key:model', 'line'), 1, 'r1', 2, 'r2');
  await redis.sadd(keys.tenantsWaiting, 'acme');
  await redis.sadd(keys.accountsWaiting('acme'), 'batch:b:1', 'batch:done');
  await redis.zadd(keys.accountWaiting('acme', 'batch', 'b:1'), 1, 'r3');
  await redis.sadd(keys.tenantsAsking, 'default', 'idle');
  const asks = await suspendedRun(world, [{ kind: 'approval', id: 'c1' }]);
  await suspendedRun(world, [{ kind: 'user_input', id: 'q1' }]);
  await suspendedRun(world, [{ kind: 'budget', id: 'batch:b:1' }]);
  const longAgo = [{ kind: 'approval', id: 'c1', requestedAt: new Date(Date.now() - 3_600_000).toISOString() }];
  await redis.hset(keys.run(asks.runId), 'pending', JSON.stringify(longAgo));
  await redis.zadd(keys.asking('default'), 1, 'gone');
  const space = { redis, keys, cluster: false, clock: systemClock };
  const turns = ['first', 'second'].map((runId) => ({ tenant: 'default', threadId: 'busy', runId, agentId: 'a' }));
  for (const run of turns) await enterThread(space, run, 'queue');
  await enterThread(space, { tenant: 'default', threadId: 'calm', runId: 'alone', agentId: 'a' }, 'queue');
  const { waits } = await mill.diagnose();
  const [people] = waits.people;
  expect(people?.oldestMs).toBeGreaterThanOrEqual(3_600_000);
  expect(people?.oldestMs).toBeLessThan(3_700_000);
  expect(waits).toEqual({
    threads: [{ tenant: 'default', threadId: 'busy', lockOwner: 'first', waiting: 1, suspended: false }],
    people: [{ tenant: 'default', waiting: 2, oldestMs: expect.any(Number) }],
    breakers: expect.arrayContaining([
      { target: 'acme/down', failures: 5, openForMs: expect.any(Number) },
      { target: 'acme/up', failures: 2, openForMs: undefined },
    ]),
    limiters: [{ model: 'model', waiting: 2 }],
    money: [{ tenant: 'acme', account: 'batch:b:1', waiting: 1 }],
  });
});
