import { onTestFinished, expect, test } from 'vitest';
import type { RunEvent } from '../../../../src/shared/contract/event.ts';
import { until } from '../../../support/redis.ts';
import { clientWorld, request, type ClientWorld } from '../../cli/options/client.ts';
import { RunWriter } from '../../support/run-writer.ts';

async function listen(
  { redis, keys }: ClientWorld,
  client: { firehose(options: { signal: AbortSignal }): AsyncIterable<RunEvent> },
) {
  const stop = new AbortController();
  const before = Number((await redis.pubsub('NUMSUB', keys.firehose))[1]);
  const seen: string[] = [];
  const ended = (async () => {
    for await (const event of client.firehose({ signal: stop.signal })) seen.push(`${event.runId} ${event.type}`);
  })();
  onTestFinished(() => stop.abort());
  if (before === 0)
    await until('subscribed', async () => Number((await redis.pubsub('NUMSUB', keys.firehose))[1]) === 1);
  return { seen, ended, stop };
}

test('the firehose carries the events of all runs of a tenant as they happen', async () => {
  const world = await clientWorld();
  await world.mill.enqueue(request);
  const { seen } = await listen(world, world.mill);
  const a = await world.mill.enqueue(request);
  const b = await world.mill.enqueue(request);
  await b.cancel();
  const writer = new RunWriter(world.redis, world.keys, a.runId);
  await writer.end();
  await until('all four', () => seen.length === 4);
  expect(seen).toEqual([
    `${a.runId} run.queued`,
    `${b.runId} run.queued`,
    `${b.runId} run.cancelled`,
    `${a.runId} run.completed`,
  ]);
});

test('the firehose of one tenant is silent about the runs of another', async () => {
  const world = await clientWorld();
  const other = world.mill.forTenant('other');
  const mine = await listen(world, world.mill);
  const theirs = await listen(world, other);
  const a = await world.mill.enqueue(request);
  const b = await other.enqueue(request);
  await a.cancel();
  await b.cancel();
  await until('both', () => mine.seen.length === 2 && theirs.seen.length === 2);
  expect(mine.seen.every((line) => line.startsWith(a.runId))).toBe(true);
  expect(theirs.seen.every((line) => line.startsWith(b.runId))).toBe(true);
});

test('an abort ends the firehose without an error and unsubscribes', async () => {
  const world = await clientWorld();
  const { ended, stop } = await listen(world, world.mill);
  stop.abort();
  await expect(ended).resolves.toBeUndefined();
  await until('unsubscribed', async () => Number((await world.redis.pubsub('NUMSUB', world.keys.firehose))[1]) === 0);
});

test('a listener that falls far behind loses the oldest events, and only those', async () => {
  const world = await clientWorld();
  const run = await world.mill.enqueue(request);
  const writer = new RunWriter(world.redis, world.keys, run.runId);
  const iterator = world.mill.firehose()[Symbol.asyncIterator]();
  onTestFinished(() => void iterator.return?.());
  const first = iterator.next();
  await until('subscribed', async () => Number((await world.redis.pubsub('NUMSUB', world.keys.firehose))[1]) === 1);
  await writer.text(1);
  const { keys, mill, redis } = world;
  const received: string[] = [];
  const listening = (async () => {
    for await (const event of mill.firehose()) received.push(String(event.sequenceNumber));
  })();
  listening.catch(() => {});
  expect((await first).value).toMatchObject({ sequenceNumber: 2 });
  for (let i = 0; i < 52; i++) await writer.text(100);
  await until('all have arrived', () => received.at(-1) === '5202');
  const next = await iterator.next();
  expect(next.value).toMatchObject({ sequenceNumber: 203 });
  expect(await redis.xlen(keys.events(run.runId))).toBe(5_202);
});

test('events of a run without a record reach no tenant and delay no other', async () => {
  const world = await clientWorld();
  const { seen } = await listen(world, world.mill);
  await new RunWriter(world.redis, world.keys, '01HZZZZZZZZZZZZZZZZZZZZZZZ').emit([{ type: 'agent.start' }]);
  const run = await world.mill.enqueue(request);
  await until('the next event', () => seen.length > 0);
  expect(seen).toEqual([`${run.runId} run.queued`]);
});
