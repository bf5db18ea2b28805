import { Worker } from 'bullmq';
import { expect, onTestFinished, test } from 'vitest';
import { quarantineQueue } from '../../../src/shared/contract/queues.ts';
import { resumeRun } from '../../../src/shared/state/run/waits/resume.ts';
import { rounds } from '../../support/lane.ts';
import { until } from '../../support/redis.ts';
import { runKeySpace } from '../../support/run-key-space.ts';
import { orphanTests } from './reconcile-orphans.ts';
import { makeWorld } from './reconcile-world.ts';

orphanTests('Redis', () => undefined);

test('a run without a job is requeued once, under a new job id, and counted', async () => {
  const world = await makeWorld();
  const runId = await world.seed();
  expect(await world.pass()).toBe(1);
  expect(await world.jobs()).toEqual([`${runId}-s1`]);
  expect(await world.pass()).toBe(0);
  const { requeued, requeued_at } = await world.redis.hgetall(world.keys.counters);
  expect(requeued).toBe('1');
  expect(Number(requeued_at)).toBeCloseTo(Date.now(), -5);
});

test('a run whose job waits or works, and one that was just changed, are left alone', async () => {
  const world = await makeWorld();
  const waiting = await world.seed();
  await world.queues.add('runs', { runId: waiting, kind: 'agent.turn', segment: 0 });
  await world.seed({ updatedAt: new Date().toISOString() });
  await world.seed({ status: 'suspended' });
  expect(await world.pass()).toBe(0);
  expect(await world.jobs()).toEqual([`${waiting}-s0`]);
});

test('a run that waits for people is left to them, however long that takes', async () => {
  const world = await makeWorld();
  const later = new Date(Date.now() + 3_600_000).toISOString();
  const justNow = new Date(Date.now() - 1_000).toISOString();
  for (const expiresAt of [undefined, later, justNow]) {
    const item = { kind: 'approval' as const, id: 'c1', requestedAt: '2026-01-01T00:00:00.000Z' };
    await world.seed({ status: 'suspended', pending: [{ ...item, ...(expiresAt !== undefined && { expiresAt }) }] });
  }
  expect(await world.pass()).toBe(0);
  expect(await world.jobs()).toEqual([]);
  expect(world.woken).toEqual([]);
});

test('a suspended run is woken when its journal lacks a decision, and when its call expired and its timer is gone', async () => {
  const world = await makeWorld();
  const item = { kind: 'approval' as const, id: 'c1', requestedAt: '2026-01-01T00:00:00.000Z' };
  const decided = await world.seed({ status: 'suspended', pending: [item] });
  await world.redis.rpush(world.keys.decided(decided), '{}');
  const running = await world.seed({ status: 'running' });
  await world.queues.add('runs', { runId: running, kind: 'agent.turn', segment: 0 });
  await world.redis.rpush(world.keys.decided(running), '{}');
  const expiresAt = new Date(Date.now() - 60_000).toISOString();
  const expired = await world.seed({ status: 'suspended', pending: [{ ...item, expiresAt }] });
  expect(await world.pass()).toBe(0);
  expect(world.woken.toSorted()).toEqual([decided, expired].toSorted());
});

test('a run that waits for several others is woken when one of them never began, and not by the ends of some', async () => {
  const world = await makeWorld();
  const child = await world.seed({ updatedAt: new Date().toISOString() });
  const waitsFor = async (...ids: string[]) => {
    const pending = ids.map((id) => ({ kind: 'child' as const, id, requestedAt: '2026-01-01T00:00:00.000Z' }));
    const runId = await world.seed({ status: 'suspended', pending });
    await world.redis.rpush(world.keys.decided(runId), '{}');
    await world.redis.hset(world.keys.later(runId), { segment: 0 });
    return runId;
  };
  await waitsFor(child);
  const lost = await waitsFor(child, 'never-made');
  await world.pass();
  expect(world.woken).toEqual([lost]);
});

test('a run that waits for money is kept in its wait queue, and resumed when there is money', async () => {
  const world = await makeWorld();
  const waitsFor = (account: string, neededMicrocents: number) => {
    const item = { kind: 'budget' as const, id: account, requestedAt: '2026-01-01T00:00:00.000Z' };
    return world.seed({ status: 'suspended', pending: [{ ...item, args: { neededMicrocents } }] });
  };
  await world.redis.hset(world.keys.account('acme', 'batch', 'b:1', 'total'), { cap: 10, spent: 5 });
  const tenant = { tenant: 'acme' };
  const poor = await waitsFor('batch:b:1', 6);
  const rich = await waitsFor('batch:b:1', 5);
  for (const runId of [poor, rich]) await world.redis.hset(world.keys.run(runId), tenant);
  await world.seed({ status: 'suspended', pending: [{ kind: 'approval', id: 'c', requestedAt: '' }] });
  await world.pass();
  await world.pass();
  expect(world.woken).toContain(rich);
  expect(world.woken).not.toContain(poor);
  const waitQueue = world.keys.accountWaiting('acme', 'batch', 'b:1');
  expect(await world.redis.zrange(waitQueue, 0, '-1')).toEqual([poor]);
});

test('a run whose job failed without ending it continues in a new job', async () => {
  const world = await makeWorld();
  const runId = await world.seed({ status: 'running' });
  await world.queues.add('runs', { runId, kind: 'agent.turn', segment: 0 });
  const worker = new Worker('runs', null, { connection: world.redis, prefix: world.prefix });
  onTestFinished(() => worker.close());
  const job = await worker.getNextJob('token');
  await job?.moveToFailed(Object.assign(new Error('lost'), { name: 'UnrecoverableError' }), 'token', false);
  expect(await world.pass()).toBe(1);
  expect(await world.jobs()).toContain(`${runId}-s1`);
});

test('ended runs and creations that never finished are forgotten', async () => {
  const world = await makeWorld();
  const ended = await world.seed({ status: 'completed' });
  await world.redis.zadd(world.keys.open, 1, 'ghost');
  await world.redis.zadd(world.keys.open, Date.now(), 'young');
  await world.pass();
  expect(await world.isOpen(ended)).toBe(false);
  expect(await world.isOpen('ghost')).toBe(false);
  expect(await world.isOpen('young')).toBe(true);
});

test('the parent of a run whose worker was lost right after the end is notified', async () => {
  const world = await makeWorld();
  const ended = await world.seed({ status: 'cancelled' });
  await world.pass();
  expect(world.endedChildren).toEqual([ended]);
  expect(await world.isOpen(ended)).toBe(false);
});

test('a run whose job keeps vanishing is abandoned after ten times', async () => {
  const world = await makeWorld();
  const runId = await world.seed();
  await world.redis.hset(world.keys.run(runId), 'requeues', '10');
  await world.pass();
  expect(world.abandoned.map((job) => job.runId)).toEqual([runId]);
  expect(await world.jobs()).toEqual([]);
});

test('runs in quarantine call for a process only while no live worker serves it', async () => {
  const world = await makeWorld();
  const runId = await world.seed({ queue: quarantineQueue });
  await world.queues.add(quarantineQueue, { runId, kind: 'agent.turn', segment: 0 });
  await world.pass();
  expect(world.unserved()).toBe(1);
  const info = {
    name: 'w',
    queues: [quarantineQueue],
    concurrency: 1,
    active: 0,
    startedAt: '',
    version: '',
    providers: [],
    runs: [],
  };
  await world.supervision.heartbeat(info);
  await world.pass();
  expect(world.unserved()).toBe(1);
});

test('requeueing a run twice from the same segment gives one new segment', async () => {
  const world = await makeWorld();
  const runId = await world.seed();
  const answers = await Promise.all([0, 0].map((from) => world.supervision.requeue(runId, from, 'runs')));
  expect(answers.filter((segment) => segment === 1)).toHaveLength(1);
  expect(answers.filter((segment) => segment === undefined)).toHaveLength(1);
});

const inThread = { tenant: 'default', threadId: 't', agentId: 'support' };
const request = { agent: 'support', input: 'hi', thread: 't' };

test('a run that waits for its thread has no job, and that is as it should be', async () => {
  const world = await makeWorld();
  const [first, second] = [
    await world.seed({ request, updatedAt: new Date().toISOString() }),
    await world.seed({ request }),
  ];
  await world.threads.enter({ ...inThread, runId: first });
  await world.threads.enter({ ...inThread, runId: second });
  expect(await world.pass()).toBe(0);
  expect(await world.jobs()).toEqual([]);
});

test('a delayed run does not enter its thread before its time has come', async () => {
  const world = await makeWorld();
  const runId = await world.seed({ request: { ...request, delayMs: 3_600_000 } });
  await world.queues
    .get('runs')
    .add('agent.turn', { v: 1, kind: 'agent.turn', runId, segment: 0 }, { jobId: `${runId}-s0`, delay: 3_600_000 });
  expect(await world.pass()).toBe(0);
  await expect(world.threads.get('default', 't')).rejects.toMatchObject({ code: 'not_found' });
});

test('the lock of an owner that has ended goes to the next run', async () => {
  const world = await makeWorld();
  const first = await world.seed({ request, status: 'completed', endedAt: new Date().toISOString() });
  const second = await world.seed({ request, updatedAt: new Date().toISOString() });
  await world.threads.enter({ ...inThread, runId: first });
  await world.threads.enter({ ...inThread, runId: second });
  await world.threadsAreDue();
  await world.pass();
  expect(await world.jobs()).toEqual([`${second}-s1`]);
  expect(await world.threads.get('default', 't')).toMatchObject({ lockOwner: second, waiting: 0 });
});

test('a lock owner without a record may be about to get one: it keeps the thread for one more pass', async () => {
  const world = await makeWorld();
  await world.threads.enter({ ...inThread, runId: 'UNKNOWN' });
  await world.threadsAreDue();
  await world.pass();
  expect(await world.threads.get('default', 't')).toMatchObject({ lockOwner: 'UNKNOWN' });
  await world.pass();
  expect(await world.threads.get('default', 't')).not.toHaveProperty('lockOwner');
});

test('a lock owner that was interrupted and not stopped is stopped', async () => {
  const world = await makeWorld();
  const first = await world.seed({ request, updatedAt: new Date().toISOString() });
  await world.threads.enter({ ...inThread, runId: first });
  await world.threads.enter({ ...inThread, runId: 'LATER', onBusy: 'interrupt' });
  await world.threadsAreDue();
  await world.pass();
  expect(world.stopped).toEqual([first]);
});

test('the lock of an owner that has ended goes to the next run in the next pass, however many others are suspended', async () => {
  const world = await makeWorld();
  const { redis, keys } = world;
  const parked = await world.seed({ status: 'suspended', request, pending: [] });
  const count = rounds({ fast: 600, all: 20_000 });
  for (let i = 0; i < count; i++) {
    const thread = { tenant: 'default', threadId: `p${i}`, runId: parked };
    const acquired = await world.threads.acquire({ ...thread, agentId: 'support', epoch: 1 });
    if (acquired.kind === 'acquired') await world.threads.suspend({ ...thread, fence: acquired.fence });
  }
  await world.threadsAreDue();
  await until('each was looked at', async () => {
    await world.pass();
    return (await redis.zcount(keys.threadChecks, '-inf', Date.now())) === 0;
  });
  const hours = Date.now() + 12 * 3_600_000;
  expect(await redis.zcount(keys.threadChecks, hours, '+inf'), 'none of them is looked at soon').toBe(count);

  const first = await world.seed({ request, status: 'completed', endedAt: new Date().toISOString() });
  const second = await world.seed({ request, updatedAt: new Date().toISOString() });
  for (const runId of [first, second]) await world.threads.enter({ ...inThread, runId });
  await redis.zadd(keys.threadChecks, 1, 'default:t');
  await world.pass();
  expect(await world.jobs()).toEqual([`${second}-s1`]);
});

test('a thread that is listed without a time is looked at', async () => {
  const world = await makeWorld();
  const first = await world.seed({ request, status: 'completed', endedAt: new Date().toISOString() });
  await world.threads.enter({ ...inThread, runId: first });
  await world.redis.del(world.keys.threadChecks);
  await world.pass();
  expect(await world.threads.get('default', 't')).not.toHaveProperty('lockOwner');
});

test('agents and empty queues that no worker has announced for a week are forgotten, and no others', async () => {
  const world = await makeWorld();
  const { redis, keys } = world;
  const eightDaysAgo = Date.now() - 8 * 86_400_000;
  const agent = (seenAt: number) => JSON.stringify({ id: 'a', model: 'm', tools: [], seenAt: new Date(seenAt) });
  await redis.hset(keys.agents, { old: agent(eightDaysAgo), odd: 'not json', live: agent(Date.now()) });
  await redis.zadd(keys.queues, eightDaysAgo, 'empty', eightDaysAgo, 'full', Date.now(), 'live');
  await world.queues.add('full', { runId: await world.seed(), kind: 'agent.turn', segment: 0 });
  await world.pass();
  expect(await redis.hkeys(keys.agents)).toEqual(['live']);
  expect((await redis.zrange(keys.queues, 0, '-1')).toSorted()).toEqual(['full', 'live']);
});

test('a record that cannot be read does not keep the others of its page from repair', async () => {
  const world = await makeWorld();
  const odd = await world.seed();
  await world.redis.hset(world.keys.run(odd), 'status', 'no such status');
  const lost = await world.seed();
  expect(await world.pass()).toBe(1);
  expect(await world.jobs()).toEqual([`${lost}-s1`]);
  expect(await world.isOpen(odd)).toBe(true);
});

test('a lost run is requeued by the next pass, which checks none of those that wait for people', async () => {
  const world = await makeWorld();
  const { redis, keys } = world;
  const pending = [{ kind: 'approval' as const, id: 'c1', requestedAt: '2026-01-01T00:00:00.000Z' }];
  for (let i = 0; i < rounds({ fast: 600, all: 20_000 }); i++) await world.seed({ status: 'suspended', pending });
  // More than one pass relists, in the large.
  await until('all are listed', async () => {
    await world.pass();
    return (await redis.zcard(keys.checks)) === (await redis.zcard(keys.open));
  });
  const times = async () => await redis.zrange(keys.checks, 0, '-1', 'WITHSCORES');
  const before = await times();
  expect(Number(before[1]), 'the first of them is due').toBeGreaterThan(Date.now() + 3_600_000);
  await world.pass();
  expect(await times(), 'none has another time').toEqual(before);
  const lost = await world.seed();
  await redis.zadd(keys.checks, 0, lost);
  expect((await world.supervision.dueRuns(10)).map(({ runId }) => runId)).toEqual([lost]);
  expect(await world.pass()).toBe(1);
  expect(await world.jobs()).toEqual([`${lost}-s1`]);
});

test('a run whose wait ends is looked at soon after, in case its job is lost', async () => {
  const world = await makeWorld();
  const { redis, keys } = world;
  const runId = await world.seed({ status: 'suspended', pending: [] });
  await world.pass();
  expect(Number(await redis.zscore(keys.checks, runId))).toBeGreaterThan(Date.now() + 3_600_000);
  const entry = { v: 1, t: 'decided', at: new Date().toISOString() } as const;
  const keySpace = runKeySpace(redis, keys);
  await resumeRun(keySpace, runId, { summary: 'x', entry, atMs: Date.now() });
  expect(Number(await redis.zscore(keys.checks, runId))).toBeLessThan(Date.now() + 20_000);
});

test('a run that waits is looked at again when something may be the matter with it', async () => {
  const world = await makeWorld();
  const { redis, keys } = world;
  const pending = { id: 'c1', requestedAt: '2026-01-01T00:00:00.000Z' };
  const expiresAt = new Date(Date.now() + 1_800_000).toISOString();
  const waits = {
    'a call expires': await world.seed({ status: 'suspended', pending: [{ ...pending, kind: 'approval', expiresAt }] }),
    'for money': await world.seed({ status: 'suspended', pending: [{ ...pending, kind: 'budget', id: 'batch:b' }] }),
    'since just now': await world.seed({ status: 'suspended', updatedAt: new Date().toISOString() }),
  };
  await world.pass();
  const minutes: Record<string, number> = {};
  for (const [why, runId] of Object.entries(waits))
    minutes[why] = Math.round((Number(await redis.zscore(keys.checks, runId)) - Date.now()) / 60_000);
  expect(minutes).toEqual({ 'a call expires': 30, 'for money': 10, 'since just now': 0 });
});

test('what happens to a run while it is looked at is not forgotten', async () => {
  const world = await makeWorld();
  const { redis, keys } = world;
  const runId = await world.seed();
  await redis.zadd(keys.checks, 5, runId);
  await world.supervision.lookAgain([{ runId, dueAt: '4', nextMs: 1e15 }]);
  expect(await redis.zscore(keys.checks, runId)).toBe('5');
  await world.supervision.lookAgain([{ runId, dueAt: '5', nextMs: 7 }]);
  expect(await redis.zscore(keys.checks, runId)).toBe('7');
});
