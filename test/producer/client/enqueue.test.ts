import { inject, onTestFinished, expect, test } from 'vitest';
import { parseEvent } from '../../../src/shared/contract/event.ts';
import { jobIdFor, runIdForExecution } from '../../../src/shared/base/ids.ts';
import { Millrace } from '../../../src/producer/client/millrace.ts';
import type { RunRequestInput } from '../../../src/shared/contract/run.ts';
import { startRedisProxy } from '../../support/redis-proxy.ts';
import { OwnRedis } from '../../support/own-redis.ts';
import { testRedis, until } from '../../support/redis.ts';
import { checkEvent, clientWorld, codeOf, request } from '../cli/options/client.ts';

test('an accepted run has a record, a first event and a job that only refers to it', async () => {
  const { mill, redis, keys, bull } = await clientWorld();
  const run = await mill.enqueue({ ...request, thread: 't-1', metadata: { order: '7' } });

  expect(run).toMatchObject({ status: 'queued', attached: false });
  expect(await run.get()).toMatchObject({
    status: 'queued',
    agent: 'support',
    thread: 't-1',
    queue: 'runs',
    lastSequence: 1,
  });
  const [entry] = await redis.xrange(keys.events(run.runId), '-', '+');
  expect(entry?.[0]).toBe('1-0');
  checkEvent(entry?.[1][1] as string);
  const event = parseEvent(entry?.[1][1] as string);
  expect(event).toMatchObject({
    type: 'run.queued',
    sequenceNumber: 1,
    runId: run.runId,
    agentId: 'support',
    threadId: 't-1',
  });
  const job = await redis.hgetall(bull('runs', jobIdFor(run.runId, 0)));
  expect(job['name']).toBe('agent.turn');
  expect(JSON.parse(job['data'] as string)).toEqual({ v: 1, kind: 'agent.turn', runId: run.runId, segment: 0 });
  expect(await redis.zscore(keys.open, run.runId)).not.toBeNull();
  expect(await redis.xlen(keys.lifecycle)).toBe(1);
});

test('jobs are retried for lost workers and kept for a while, with the priority and delay of the request', async () => {
  const { mill, redis, bull } = await clientWorld({ queues: ['batch'] });
  const run = await mill.enqueue({ ...request, queue: 'batch', priority: 5 });
  const later = await mill.enqueue({ ...request, queue: 'batch', delayMs: 60_000 });

  const options = JSON.parse((await redis.hget(bull('batch', jobIdFor(run.runId, 0)), 'opts')) as string);
  expect(options).toMatchObject({
    attempts: 10,
    backoff: { type: 'exponential', delay: 1_000 },
    removeOnComplete: { age: 3_600, count: 1_000 },
    removeOnFail: { age: 604_800, count: 5_000 },
    priority: 5,
  });
  expect(await redis.zcard(bull('batch', 'prioritized'))).toBe(1);
  expect(await redis.zrange(bull('batch', 'delayed'), 0, '-1')).toEqual([jobIdFor(later.runId, 0)]);
});

test('fifty parallel submissions with one execution id are one run with one job', async () => {
  const { mill, redis, keys, bull } = await clientWorld();
  const runs = await Promise.all(
    Array.from({ length: 50 }, () => mill.enqueue({ ...request, executionId: 'order:7' })),
  );

  expect(new Set(runs.map((run) => run.runId))).toEqual(new Set([runIdForExecution('default', 'order:7')]));
  expect(runs.filter((run) => !run.attached)).toHaveLength(1);
  expect(await redis.llen(bull('runs', 'wait'))).toBe(1);
  const runId = runs[0]?.runId as string;
  const types = (await redis.xrange(keys.events(runId), '-', '+')).map(
    ([, [, json]]) => JSON.parse(json as string).type,
  );
  expect(types).toEqual(['run.queued', 'execution.started']);
});

test('the same request in another order of its fields attaches, another request conflicts', async () => {
  const { mill, redis, keys } = await clientWorld();
  const first = await mill.enqueue({ agent: 'a', input: 'x', executionId: 'e', metadata: { p: '1', q: '2' } });
  await redis.zadd(keys.open, 5, first.runId);
  await redis.zadd(keys.index('default'), 6, first.runId);
  const same = await mill.enqueue({ metadata: { q: '2', p: '1' }, executionId: 'e', input: 'x', agent: 'a' });
  expect(same).toMatchObject({ runId: first.runId, attached: true });
  expect(await codeOf(mill.enqueue({ agent: 'a', input: 'y', executionId: 'e' }))).toBe('idempotency_conflict');
  expect(await redis.zscore(keys.open, first.runId)).toBe('5');
  expect(await redis.zscore(keys.index('default'), first.runId)).toBe('6');
});

test('a repeat after the run has ended and its job is gone answers with that run and makes no job', async () => {
  const { mill, redis, keys, bull } = await clientWorld();
  const { runId } = await mill.enqueue({ ...request, executionId: 'e' });
  await redis.del(bull('runs', 'wait'), bull('runs', jobIdFor(runId, 0)));
  await redis.hset(keys.run(runId), 'status', 'completed', 'endedAt', new Date().toISOString());
  await redis.zrem(keys.open, runId);

  expect(await mill.enqueue({ ...request, executionId: 'e' })).toMatchObject({
    runId,
    attached: true,
    status: 'completed',
  });
  expect(await redis.llen(bull('runs', 'wait'))).toBe(0);
  expect(await redis.zscore(keys.open, runId)).toBeNull();
});

test('a repeat for a queued run whose job was never added adds it', async () => {
  const { mill, redis, bull } = await clientWorld();
  const { runId } = await mill.enqueue({ ...request, executionId: 'e' });
  await redis.del(bull('runs', 'wait'), bull('runs', jobIdFor(runId, 0)));
  await mill.enqueue({ ...request, executionId: 'e' });
  expect(await redis.lrange(bull('runs', 'wait'), 0, -1)).toEqual([jobIdFor(runId, 0)]);
});

test('an execution id whose record has expired starts anew, without the leftovers of the old run', async () => {
  const { mill, redis, keys } = await clientWorld();
  const { runId } = await mill.enqueue({ ...request, executionId: 'e' });
  await redis.del(keys.run(runId));
  await redis.rpush(keys.journal(runId), '{}');
  expect(await mill.enqueue({ ...request, executionId: 'e' })).toMatchObject({ runId, attached: false });
  expect(await redis.exists(keys.journal(runId))).toBe(0);
  expect(await redis.xlen(keys.events(runId))).toBe(2);
});

test('a reply of Redis that is lost, at whatever step, leaves one run and one job for each request', async () => {
  const proxy = await startRedisProxy(inject('redisUrl'));
  onTestFinished(() => proxy[Symbol.asyncDispose]());
  const { prefix, redis, keys, bull } = await clientWorld();
  const mill = new Millrace({ redis: proxy.url, prefix });
  onTestFinished(() => mill.close());
  await mill.enqueue(request);

  for (let i = 0; i < 20; i++) {
    const dropped = proxy.dropRepliesOnce();
    // Which of the commands loses its reply differs; a caller who does not know repeats.
    const submit = () => mill.enqueue({ ...request, executionId: `e${i}` });
    const run = await submit().catch(submit);
    await dropped;
    expect(run.runId).toBe(runIdForExecution('default', `e${i}`));
    await until('the connection is back', () =>
      mill.agents().then(
        () => true,
        () => false,
      ),
    );
  }
  expect(await redis.llen(bull('runs', 'wait'))).toBe(21);
  expect(await redis.zcard(keys.open)).toBe(21);
  for (let i = 0; i < 20; i++) expect(await redis.xlen(keys.events(runIdForExecution('default', `e${i}`)))).toBe(2);
});

test('an unknown agent is refused with the names of the known ones, and known as soon as a worker announces it', async () => {
  const { mill, redis, keys } = await clientWorld();
  await mill.registerAgents([{ id: 'support', model: 'm', tools: [] }]);
  await mill.enqueue(request);
  const refused = await mill.enqueue({ ...request, agent: 'sales' }).catch((error: Error) => error);
  expect(refused).toMatchObject({ code: 'validation' });
  expect((refused as Error).message).toContain('support');

  await redis.hset(keys.agents, 'sales', JSON.stringify({ id: 'sales', model: 'm', tools: [], seenAt: 'now' }));
  expect(await mill.enqueue({ ...request, agent: 'sales' })).toMatchObject({ status: 'queued' });
  expect((await mill.agents()).map((agent) => agent.id)).toEqual(['sales', 'support']);
});

test('a request for another version of an agent than the announced one is refused', async () => {
  const { mill } = await clientWorld();
  await mill.enqueue({ ...request, agentVersion: '7' });
  await mill.registerAgents([{ id: 'support', version: '2', model: 'm', tools: [] }]);
  expect(await mill.enqueue({ ...request, agentVersion: '2' })).toMatchObject({ status: 'queued' });
  await expect(mill.enqueue({ ...request, agentVersion: '1' })).rejects.toMatchObject({
    code: 'validation',
    message: 'agentVersion: agent support has version 2, not 1',
  });
});

test('an announced agent in a form that this version does not read is left out of the list', async () => {
  const { mill, redis, keys } = await clientWorld();
  await redis.hset(keys.agents, 'odd', 'not json', 'fine', JSON.stringify({ id: 'fine', model: 'm', tools: ['t'] }));
  expect(await mill.agents()).toEqual([{ id: 'fine', model: 'm', tools: ['t'] }]);
});

test('a queue at its length refuses with the seconds to wait, and other queues do not', async () => {
  const { mill } = await clientWorld({ queueMaxLength: 3, queues: ['runs', 'other'] });
  await Promise.all([mill.enqueue(request), mill.enqueue(request), mill.enqueue({ ...request, delayMs: 60_000 })]);
  const refused = await mill.enqueue(request).catch((error: unknown) => error);
  expect(refused).toMatchObject({ code: 'queue_full', retryable: true, details: { retryAfterS: expect.any(Number) } });
  await mill.enqueue({ ...request, queue: 'other' });
});

test('the length of a queue that others filled is seen', async () => {
  const { mill, prefix } = await clientWorld();
  await mill.enqueueMany(Array.from({ length: 5 }, () => request));
  const other = new Millrace({ redis: inject('redisUrl'), prefix, queueMaxLength: 5 });
  onTestFinished(() => other.close());
  expect(await codeOf(other.enqueue(request))).toBe('queue_full');
});

test('accepting a run asks Redis for nothing beyond its record, its lists and its job', async () => {
  const { url } = await OwnRedis.start();
  const redis = await testRedis('work', url);
  const mill = new Millrace({ redis: url });
  onTestFinished(() => mill.close());
  await mill.registerAgents([{ id: 'support', model: 'm', tools: [] }]);
  await mill.enqueue(request);
  const before = await commandCount(redis);
  await mill.enqueue(request);
  // Three calls of ours and one of BullMQ, what their scripts call inside, and the counting itself.
  expect((await commandCount(redis)) - before).toBeLessThanOrEqual(24);
});

async function commandCount(redis: { info(section: string): Promise<string> }): Promise<number> {
  const stats = await redis.info('commandstats');
  return [...stats.matchAll(/calls=(\d+)/g)].reduce((sum, [, calls]) => sum + Number(calls), 0);
}

test('without a replica the level `replica` accepts nothing', async () => {
  const { mill } = await clientWorld({ durability: 'replica' });
  expect(await codeOf(mill.enqueue(request))).toBe('queue_unavailable');
  expect(await codeOf(mill.enqueueMany([request]))).toBe('queue_unavailable');
});

test.each(['enqueue', 'enqueueMany'] as const)(
  'a run that no replica confirmed is given to no worker, by %s, unless its request can be repeated',
  async (method) => {
    const { mill, redis, bull } = await clientWorld({ durability: 'replica' });
    const ask = async (asked: RunRequestInput) =>
      await codeOf(method === 'enqueue' ? mill.enqueue(asked) : mill.enqueueMany([asked]));
    expect(await ask({ ...request, thread: 'talk' })).toBe('queue_unavailable');
    expect(await redis.exists(bull('runs', 'wait'))).toBe(0);
    const { runs } = await mill.list();
    expect(runs).toMatchObject([{ status: 'cancelled' }]);
    expect(await mill.threads.get('talk')).not.toHaveProperty('lockOwner');

    // Its repeat meets the same run, so nothing is done twice.
    const named = { ...request, executionId: 'named' };
    for (let tries = 0; tries < 2; tries++) expect(await ask(named)).toBe('queue_unavailable');
    expect((await mill.list()).runs.filter(({ status }) => status === 'queued')).toHaveLength(1);
  },
);

test('with a replica that follows the level `replica` accepts runs', async () => {
  const [primary, replica] = [await OwnRedis.start(), await OwnRedis.start()];
  const follower = await testRedis('work', replica.url);
  const leader = await testRedis('work', primary.url);
  await leader.config('SET', 'repl-diskless-sync-delay', 0);
  await follower.replicaof('127.0.0.1', new URL(primary.url).port);
  // A replica that rewrites its file after the first copy confirms late.
  await follower.config('SET', 'appendonly', 'no');
  const follows = async () => {
    await leader.incr('probe');
    return (await follower.info('replication')).includes('master_link_status:up') && (await leader.wait(1, 100)) === 1;
  };
  await until('the replica follows', follows);
  const mill = new Millrace({ redis: primary.url, durability: 'replica' });
  onTestFinished(() => mill.close());
  expect(await mill.enqueue(request)).toMatchObject({ status: 'queued' });
  expect(await mill.enqueueMany([request])).toMatchObject([{ status: 'queued' }]);
  expect((await mill.diagnose()).durability).toBe('replica');
});

test('a signal that has aborted keeps a run from being created', async () => {
  const { mill, redis, keys } = await clientWorld();
  const signal = AbortSignal.abort(new Error('changed my mind'));
  await expect(mill.enqueue(request, { signal })).rejects.toThrow('changed my mind');
  expect(await redis.exists(keys.open)).toBe(0);
});

test('many runs are answered in order, and the refused ones do not hinder the others', async () => {
  const { mill, redis, bull } = await clientWorld();
  const answers = await mill.enqueueMany([
    { ...request, executionId: 'a' },
    { agent: 'support' },
    { ...request, executionId: 'a' },
    { ...request, executionId: 'a', input: 'other' },
    { ...request, apiKey: 'x' },
    null,
    request,
  ]);
  const kinds = answers.map((answer) => ('error' in answer ? answer.error.code : answer.attached));
  expect(kinds).toEqual([false, 'validation', true, 'idempotency_conflict', 'secret_in_payload', 'validation', false]);
  expect(await redis.llen(bull('runs', 'wait'))).toBe(2);
});

test('bulk runs over several chunks and queues all have their job, also after Redis forgot the script', async () => {
  const { mill, redis, keys, bull } = await clientWorld({ queues: ['runs', 'odd', 'even'] });
  await mill.enqueue(request);
  await redis.call('SCRIPT', 'FLUSH');
  const answers = await mill.enqueueMany(
    Array.from({ length: 1_201 }, (_, i) => ({ ...request, queue: i % 2 ? 'odd' : 'even' })),
  );
  expect(new Set(answers.map((answer) => ('runId' in answer ? answer.runId : 'refused'))).size).toBe(1_201);
  expect(await redis.llen(bull('even', 'wait'))).toBe(601);
  expect(await redis.llen(bull('odd', 'wait'))).toBe(600);
  expect(await redis.zcard(keys.index('default'))).toBe(1_202);
});

test('in bulk an unknown agent and a full queue refuse only the runs they concern', async () => {
  const { mill } = await clientWorld({ queueMaxLength: 2 });
  await mill.registerAgents([{ id: 'support', model: 'm', tools: [] }]);
  const answers = await mill.enqueueMany([request, { ...request, agent: 'sales' }, request, request]);
  const kinds = answers.map((answer) => ('error' in answer ? answer.error.code : 'accepted'));
  expect(kinds).toEqual(['accepted', 'validation', 'accepted', 'queue_full']);
});

test('more than ten thousand runs at once are refused', async () => {
  const { mill } = await clientWorld();
  expect(await codeOf(mill.enqueueMany(Array.from({ length: 10_001 }, () => request)))).toBe('validation');
});

test('the index of a tenant that no client lists does not keep the runs of all times', async () => {
  const { mill, redis, keys } = await clientWorld();
  const dead = Array.from({ length: 400 }, (_, i) => [i + 1, `DEAD${i}`]).flat();
  await redis.zadd(keys.index('default'), ...(dead as [number, string]));
  for (let i = 0; i < 12; i++) await mill.enqueueMany(Array.from({ length: 100 }, () => request));
  await until('dead entries leave', async () => (await redis.zcount(keys.index('default'), 1, 400)) < 100);
  expect(await redis.zcount(keys.index('default'), 401, '+inf')).toBe(1_200);
});
