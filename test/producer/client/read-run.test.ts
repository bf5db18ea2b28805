import { inject, onTestFinished, expect, test } from 'vitest';
import { inGroups } from '../../../src/producer/client/read-run.ts';
import { Millrace } from '../../../src/producer/client/millrace.ts';
import { startRedisProxy } from '../../support/redis-proxy.ts';
import { until } from '../../support/redis.ts';
import { clientWorld, codeOf, request } from '../cli/options/client.ts';
import { RunWriter } from '../support/run-writer.ts';

async function startedRun(options: Parameters<typeof clientWorld>[0] = {}) {
  const world = await clientWorld(options);
  const run = await world.mill.enqueue(request);
  const writer = new RunWriter(world.redis, world.keys, run.runId);
  await writer.start();
  const subscribed = () =>
    until('subscribed', async () => Number((await world.redis.pubsub('NUMSUB', world.keys.live(run.runId)))[1]) === 1);
  return { ...world, run, writer, subscribed };
}

test('the result of a run that has ended is there at once', async () => {
  const { run, writer } = await startedRun();
  await writer.end();
  expect(await run.result()).toMatchObject({
    status: 'completed',
    text: 'It is on its way.',
    costMicrocents: 700,
    steps: 1,
  });
});

test('a caller without a limit waits until the run ends, however many events pass', async () => {
  const { run, writer, subscribed } = await startedRun({ idleMs: 60_000 });
  const result = run.result();
  await subscribed();
  await writer.text(10);
  await writer.end();
  expect(await result).toMatchObject({ status: 'completed', text: 'It is on its way.' });
});

test('a caller with a limit gets the present state when it has passed', async () => {
  const { run } = await startedRun();
  expect(await run.result({ waitMs: 0 })).toMatchObject({ status: 'running', text: '' });
  expect(await run.result({ waitMs: 30 })).toMatchObject({ status: 'running', text: '' });
});

test('a failed run is a result, not an error', async () => {
  const { run, writer } = await startedRun();
  await writer.end('failed');
  expect(await run.result()).toMatchObject({ status: 'failed', error: { code: 'provider_unavailable' }, text: '' });
});

test('a waiting caller leaves with the reason of its signal, and nothing stays subscribed', async () => {
  const { run, redis, keys, subscribed } = await startedRun();
  const stop = new AbortController();
  const result = run.result({ signal: stop.signal });
  await subscribed();
  stop.abort(new Error('the client went away'));
  await expect(result).rejects.toThrow('the client went away');
  await until('unsubscribed', async () => Number((await redis.pubsub('NUMSUB', keys.live(run.runId)))[1]) === 0);
  await expect(run.result({ signal: stop.signal })).rejects.toThrow('the client went away');
});

test('a terminal event whose message was lost is found after silence', async () => {
  const { run, writer, subscribed } = await startedRun({ idleMs: 40 });
  const result = run.result();
  await subscribed();
  await writer.end('completed', { unpublished: true });
  expect(await result).toMatchObject({ status: 'completed' });
});

test('a waiting caller survives that the connections are cut', async () => {
  const proxy = await startRedisProxy(inject('redisUrl'));
  onTestFinished(() => proxy[Symbol.asyncDispose]());
  const { prefix, run, writer, subscribed } = await startedRun();
  const mill = new Millrace({ redis: proxy.url, prefix });
  onTestFinished(() => mill.close());
  const result = mill.result(run.runId);
  await subscribed();
  proxy.cut();
  await writer.end('completed', { unpublished: true });
  expect(await result).toMatchObject({ status: 'completed' });
});

test('a run that does not exist is not found, and an id that cannot be one is invalid', async () => {
  const { mill } = await clientWorld();
  const reads: ((runId: string) => Promise<unknown>)[] = [
    (runId) => mill.get(runId),
    (runId) => mill.result(runId),
    (runId) => mill.cancel(runId),
  ];
  for (const read of reads) {
    expect(await codeOf(read('01HZZZZZZZZZZZZZZZZZZZZZZZ'))).toBe('run_not_found');
    expect(await codeOf(read('{x}:run'))).toBe('invalid_id');
  }
});

test('a record that cannot be read says so', async () => {
  const { run, redis, keys } = await startedRun();
  await redis.hset(keys.run(run.runId), 'v', '99');
  expect(await codeOf(run.get())).toBe('run_state_version_unsupported');
});

test('at most ten reads are under way, and what comes of them is in order', async () => {
  let working = 0;
  let most = 0;
  const items = Array.from({ length: 45 }, (_, i) => i);
  const results = await inGroups(items, async (item) => {
    most = Math.max(most, ++working);
    await new Promise((resolve) => setImmediate(resolve));
    working -= 1;
    return item * 2;
  });
  expect(most).toBe(10);
  expect(results).toEqual(items.map((item) => item * 2));
  expect(await inGroups([], async () => 1)).toEqual([]);
});
