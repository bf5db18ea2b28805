import { inject, onTestFinished, expect, test } from 'vitest';
import { freePort } from '../../support/scratch-redis.ts';
import { RunError } from '../../../src/shared/base/errors.ts';
import { keysFor } from '../../../src/shared/state/keys.ts';
import { ClientCore } from '../../../src/producer/client/client-core.ts';
import { Millrace } from '../../../src/producer/client/millrace.ts';
import { OwnRedis } from '../../support/own-redis.ts';
import { startRedisProxy } from '../../support/redis-proxy.ts';
import { testRedis, until } from '../../support/redis.ts';
import { clientWorld, codeOf, request } from '../cli/options/client.ts';
import { RunWriter } from '../support/run-writer.ts';

const runId = '01HZZZZZZZZZZZZZZZZZZZZZZZ';

const calls: readonly [string, (mill: Millrace) => Promise<unknown>][] = [
  ['enqueue', (mill) => mill.enqueue(request)],
  ['enqueueMany', (mill) => mill.enqueueMany(Array.from({ length: 2_000 }, () => request))],
  ['get', (mill) => mill.get(runId)],
  ['list', (mill) => mill.list()],
  ['result', (mill) => mill.result(runId)],
  ['events', (mill) => mill.events(runId)[Symbol.asyncIterator]().next()],
  ['cancel', (mill) => mill.cancel(runId)],
  ['agents', (mill) => mill.agents()],
  ['registerAgents', (mill) => mill.registerAgents([{ id: 'a', model: 'm', tools: [] }])],
  ['queueDepths', (mill) => mill.queueDepths()],
  ['redrive', (mill) => mill.redrive({ runId })],
  ['diagnose', (mill) => mill.diagnose()],
];

/** What each method throws, within the five seconds that are promised. */
async function outcomes(mill: Millrace): Promise<Record<string, string>> {
  const codes = calls.map(async ([name, call]) => [name, await codeOf(Promise.race([call(mill), deadline(5_000)]))]);
  return Object.fromEntries(await Promise.all(codes)) as Record<string, string>;
}

const allUnavailable = Object.fromEntries(calls.map(([name]) => [name, 'queue_unavailable']));

function deadline(ms: number): Promise<never> {
  return new Promise((_, reject) => setTimeout(() => reject(new Error(`no answer in ${ms} ms`)), ms));
}

test('with a Redis that was never there every method says so in time, and the client closes', async () => {
  const errors: Error[] = [];
  const mill = new Millrace({ redis: `redis://127.0.0.1:${await freePort()}`, onError: (error) => errors.push(error) });
  expect(await outcomes(mill)).toEqual(allUnavailable);
  expect(errors.length).toBeGreaterThan(0);
  await mill.close();
});

test('with a Redis that dies every method says so in time, and all works again when it is back', async () => {
  const server = await OwnRedis.start();
  const mill = new Millrace({ redis: server.url, queues: ['runs', 'another'] });
  onTestFinished(() => mill.close());
  const run = await mill.enqueue(request);
  await server.kill();
  expect(await outcomes(mill)).toEqual(allUnavailable);
  await server.start();
  await until('the client is back', () =>
    run.get().then(
      () => true,
      () => false,
    ),
  );
  expect(await run.get()).toMatchObject({ status: 'queued' });
  await mill.enqueue({ ...request, queue: 'another' });
});

test('with a Redis that takes commands and never answers every method says so in time', async () => {
  const proxy = await startRedisProxy(inject('redisUrl'));
  onTestFinished(() => proxy[Symbol.asyncDispose]());
  const { prefix } = await clientWorld();
  const mill = new Millrace({ redis: proxy.url, prefix });
  onTestFinished(() => mill.close());
  await mill.enqueue(request);
  proxy.hold();
  expect(await outcomes(mill)).toEqual(allUnavailable);
  proxy.release();
  // Queues that were opened just then must not stay broken.
  await until('the client is back', () => mill.queueDepths().catch(() => undefined));
  expect(Object.keys(await mill.queueDepths())).toEqual(['runs', 'quarantine', 'maintenance', 'runs-postrun']);
});

test('a Redis that is full refuses runs as unavailable, and the caller`s repeat is accepted once there is room', async () => {
  const server = await OwnRedis.start();
  const mill = new Millrace({ redis: server.url });
  onTestFinished(() => mill.close());
  const admin = await testRedis('work', server.url);
  await mill.enqueue(request);
  await admin.config('SET', 'maxmemory', '1');
  expect(await codeOf(mill.enqueue({ ...request, executionId: 'e' }))).toBe('queue_unavailable');
  await admin.config('SET', 'maxmemory', '0');
  expect(await mill.enqueue({ ...request, executionId: 'e' })).toMatchObject({ status: 'queued' });
});

test('a subscriber and a waiting caller outlast a Redis that is away for a while', async () => {
  const server = await OwnRedis.start();
  const mill = new Millrace({ redis: server.url, idleMs: 100 });
  onTestFinished(() => mill.close());
  const run = await mill.enqueue(request);
  const numbers: number[] = [];
  const followed = (async () => {
    for await (const event of run.events()) numbers.push(event.sequenceNumber);
  })();
  const result = run.result();
  await until('following', () => numbers.length === 1);
  await server.kill();
  await until('it is noticed', () => codeOf(run.get()).then((code) => code === 'queue_unavailable'));
  await server.start();
  const writer = new RunWriter(await testRedis('work', server.url), keysFor('mr'), run.runId);
  await writer.text(3);
  await writer.end();
  await followed;
  expect(numbers).toEqual([1, 2, 3, 4, 5]);
  expect(await result).toMatchObject({ status: 'completed' });
});

test('when a wait ends while Redis is away, the last known state is the answer', async () => {
  const server = await OwnRedis.start();
  const mill = new Millrace({ redis: server.url, idleMs: 50 });
  onTestFinished(() => mill.close());
  const run = await mill.enqueue(request);
  const result = run.result({ waitMs: 1_500 });
  await until('waiting', () => run.get());
  await server.kill();
  expect(await result).toMatchObject({ runId: run.runId, status: 'queued' });
});

test('work that Redis keeps waiting is abandoned within the five seconds', async () => {
  const core = new ClientCore({ redis: inject('redisUrl') });
  onTestFinished(() => core.close());
  const never = new Promise<never>(() => {});
  expect(await codeOf(Promise.race([core.reach(() => never), deadline(5_000)]))).toBe('queue_unavailable');
});

test('a mistake of ours does not look like a Redis that is away', async () => {
  const core = new ClientCore({ redis: inject('redisUrl') });
  onTestFinished(() => core.close());
  expect(
    await codeOf(
      core.reach(async () => {
        throw new TypeError('oops');
      }),
    ),
  ).toBe('internal');
  expect(await codeOf(core.reach((redis) => redis.call('NO-SUCH-COMMAND')))).toBe('internal');
});

test('a client that is closed while its subscribers are starting leaves no connection', async () => {
  const proxy = await startRedisProxy(inject('redisUrl'));
  onTestFinished(() => proxy[Symbol.asyncDispose]());
  const { mill: other, prefix } = await clientWorld();
  const run = await other.enqueue(request);
  for (let ticks = 0; ticks < 8; ticks++) {
    const mill = new Millrace({ redis: proxy.url, prefix });
    await mill.get(run.runId);
    const event = mill.events(run.runId, { after: 1 })[Symbol.asyncIterator]().next();
    const result = mill.result(run.runId).catch(() => {});
    for (let tick = 0; tick < ticks; tick++) await new Promise((resolve) => setImmediate(resolve));
    await mill.close();
    expect(await event).toMatchObject({ done: true });
    await result;
    await until('no connection is left', () => proxy.connections === 0);
  }
});

test('a closed client refuses every call', async () => {
  const { mill } = await clientWorld();
  await mill.enqueue(request);
  await mill.close();
  await mill.close();
  const error: unknown = await mill.enqueue(request).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(RunError);
  expect(error).toMatchObject({ code: 'queue_unavailable' });
});

test('closing lets a call in progress end', async () => {
  const { mill } = await clientWorld();
  await mill.enqueue(request);
  const [run] = await Promise.all([mill.enqueue(request), mill.close()]);
  expect(run.status).toBe('queued');
});
