import { expect, onTestFinished, test } from 'vitest';
import { RunAdmission, Quotas } from '../../../../src/producer/client/accept/admission.ts';
import { Millrace } from '../../../../src/producer/client/millrace.ts';
import { createRuns, newRun } from '../../../../src/shared/state/run/create-runs.ts';
import { forgetOpen } from '../../../../src/shared/state/run/open-runs.ts';
import { OwnRedis } from '../../../support/own-redis.ts';
import { testRedis, until } from '../../../support/redis.ts';
import { serverWorld } from '../../http/server-world.ts';
import { clientWorld, codeOf, request } from '../../cli/options/client.ts';
import { runKeySpace } from '../../../support/run-key-space.ts';

const accepted = (call: Promise<unknown>) =>
  call.then(
    () => true,
    () => false,
  );

test('a tenant at its open runs is refused with 429 and the seconds to wait, and others are not', async () => {
  const { send, mill } = await serverWorld({ client: { maxOpenRunsPerTenant: 2 } });
  const answers = await mill.enqueueMany([request, request, request]);
  expect(answers.map((answer) => ('error' in answer ? answer.error.code : 'accepted'))).toEqual([
    'accepted',
    'accepted',
    'queue_full',
  ]);
  const refused = await send('POST', '/v1/runs', request);
  expect([refused.status, refused.body.error]).toEqual([
    429,
    expect.objectContaining({
      code: 'queue_full',
      retryable: true,
      details: { limit: 'tenant_open_runs', retryAfterS: 5 },
    }),
  ]);
  expect(refused.headers.get('retry-after')).toBe('5');
  expect((await mill.forTenant('other').enqueue(request)).status).toBe('queued');
});

test('a fleet at its open runs refuses every tenant with 503', async () => {
  const { send, mill } = await serverWorld({ client: { maxOpenRuns: 1 } });
  await mill.forTenant('other').enqueue(request);
  const { status, body } = await send('POST', '/v1/runs', request);
  expect([status, body.error.code, body.error.details.limit]).toEqual([503, 'queue_full', 'open_runs']);
});

test.each(['enqueue', 'enqueueMany'] as const)(
  'the time in the queue that an operator set holds for requests that name none, by %s',
  async (method) => {
    const { mill, redis, keys } = await clientWorld({ queueTtlMs: 60_000 });
    const accept = async (more: object) => {
      const asked = { ...request, ...more };
      const accepted = method === 'enqueue' ? await mill.enqueue(asked) : (await mill.enqueueMany([asked]))[0];
      return accepted && 'runId' in accepted ? accepted.runId : '';
    };
    const minutes = async (runId: string) =>
      Math.round((Number(await redis.zscore(keys.deadlines, runId)) - Date.now()) / 60_000);
    expect(await minutes(await accept({}))).toBe(1);
    expect(await minutes(await accept({ queueTtlMs: 300_000 }))).toBe(5);
  },
);

test('there is room again once a run has ended, also one whose process died before it could say so', async () => {
  const world = await clientWorld({ maxOpenRunsPerTenant: 2 });
  const { mill, redis, keys } = world;
  const [first, second] = [await mill.enqueue(request), await mill.enqueue(request)];
  expect(await codeOf(mill.enqueue(request))).toBe('queue_full');
  await first.cancel();
  expect(await redis.smembers(keys.openOf('default'))).toEqual([second.runId]);
  await until('there is room', () => accepted(mill.enqueue(request)));
  // Only the set of its tenant still has this one.
  await redis.zrem(keys.open, second.runId);
  await until('there is room', () => accepted(mill.enqueue(request)));
});

test('children are not refused by the limits of their tenant', async () => {
  const { mill, redis, keys } = await clientWorld({ maxOpenRunsPerTenant: 1 });
  await mill.enqueue(request);
  const child = newRun({ ...request }, { tenant: 'default' }, 'n');
  await createRuns([child], 'default', runKeySpace(redis, keys));
  expect(await redis.scard(keys.openOf('default'))).toBe(2);
  // One that is still open would be listed again.
  await redis.hset(keys.run(child.runId), { status: 'cancelled', endedAt: new Date().toISOString() });
  await forgetOpen(runKeySpace(redis, keys), child.runId, 'default');
  expect(await redis.scard(keys.openOf('default'))).toBe(1);
});

test('a Redis that does not say how full it is keeps no run out', async () => {
  const { redis, keys } = await clientWorld();
  const server = await OwnRedis.start();
  const admin = await testRedis('work', server.url);
  await admin.call('ACL', 'SETUSER', 'default', '-info');
  const settings = { maxOpenRuns: 1, maxOpenRunsPerTenant: 1, memoryMarkPercent: 90 };
  const room = { keys, settings, queues: { quotas: new Quotas() } };
  await expect(admin.info('memory')).rejects.toThrow('NOPERM');
  await new RunAdmission().check('default', room, admin);
  await expect(new RunAdmission().check('default', room, redis)).rejects.toMatchObject({ code: 'queue_full' });
});

test('above its memory mark Redis takes no more runs, and decides and cancels go on', async () => {
  const server = await OwnRedis.start();
  const admin = await testRedis('work', server.url);
  const mill = new Millrace({ redis: server.url, memoryMarkPercent: 10 });
  onTestFinished(() => mill.close());
  const run = await mill.enqueue(request);
  const used = Number(/^used_memory:(\d+)/m.exec(await admin.info('memory'))?.[1]);
  await admin.config('SET', 'maxmemory', used * 5);
  const refused = await until('the mark is seen', () =>
    mill.enqueue(request).then(
      () => undefined,
      (error: unknown) => error,
    ),
  );
  expect(refused).toMatchObject({ code: 'queue_full', http: 503, details: { limit: 'memory' } });
  expect((await run.cancel()).status).toBe('cancelled');
  await admin.config('SET', 'maxmemory', 0);
  await until('there is room', () => accepted(mill.enqueue(request)));
});

test('a tenant at its threads begins no other, and goes on with those that it has', async () => {
  const { send, mill } = await serverWorld({ client: { maxThreadsPerTenant: 2 } });
  const inThread = (thread: string, more: object = {}) => ({ ...request, thread, ...more });
  const answers = await mill.enqueueMany(['a', 'a', 'b', 'c'].map((thread) => inThread(thread)));
  expect(answers.map((answer) => ('error' in answer ? answer.error.details : 'accepted'))).toEqual([
    'accepted',
    'accepted',
    'accepted',
    { limit: 'tenant_threads', retryAfterS: 5 },
  ]);
  const refused = await send('POST', '/v1/runs', inThread('c', { executionId: 'again' }));
  expect([refused.status, refused.body.error.code, refused.headers.get('retry-after')]).toEqual([
    429,
    'queue_full',
    '5',
  ]);
  expect(refused.body.error.message).toContain('tenant default has 2 threads');
  expect(await codeOf(mill.enqueue(inThread('later', { delayMs: 60_000 })))).toBe('queue_full');
  expect((await mill.threads.list()).threads.map(({ threadId }) => threadId).toSorted()).toEqual(['a', 'b']);
  expect((await mill.enqueue(inThread('b'))).status).toBe('queued');
  expect((await mill.enqueue(request)).status).toBe('queued');
  expect((await mill.forTenant('other').enqueue(inThread('c'))).status).toBe('queued');
});

test('of threads that begin at once there are never more than the tenant may have', async () => {
  const { mill, redis, keys, prefix } = await clientWorld({ maxThreadsPerTenant: 7 });
  const clients = [mill, (await clientWorld({ maxThreadsPerTenant: 7, prefix })).mill];
  const begun = await Promise.all(
    Array.from({ length: 40 }, (_, i) =>
      accepted((clients[i % 2] as Millrace).enqueue({ ...request, thread: `t${i}` })),
    ),
  );
  expect(begun.filter(Boolean)).toHaveLength(7);
  expect(await redis.zcard(keys.threads('default'))).toBe(7);
});

test('there is room for a thread once one was deleted, and one that was never made takes none', async () => {
  const { mill, redis, keys } = await clientWorld({ maxThreadsPerTenant: 2 });
  const run = await mill.enqueue({ ...request, thread: 'a' });
  await redis.zadd(keys.threads('default'), 1, 'never made');
  await until('the entry without a thread is forgotten', () => accepted(mill.enqueue({ ...request, thread: 'b' })));
  expect(await redis.zrangebyscore(keys.threads('default'), '-inf', '+inf')).toEqual(['a', 'b']);
  expect(await codeOf(mill.enqueue({ ...request, thread: 'c' }))).toBe('queue_full');
  await run.cancel();
  await mill.threads.delete('a');
  expect((await mill.enqueue({ ...request, thread: 'c' })).status).toBe('queued');
});
