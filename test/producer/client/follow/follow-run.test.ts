import { inject, onTestFinished, expect, test } from 'vitest';
import type { RunEvent } from '../../../../src/shared/contract/event.ts';
import { keysFor } from '../../../../src/shared/state/keys.ts';
import { Millrace } from '../../../../src/producer/client/millrace.ts';
import type { EventsOptions } from '../../../../src/producer/client/options.ts';
import { startRedisProxy } from '../../../support/redis-proxy.ts';
import { OwnRedis } from '../../../support/own-redis.ts';
import { testRedis, until } from '../../../support/redis.ts';
import { clientWorld, codeOf, request } from '../../cli/options/client.ts';
import { RunWriter } from '../../support/run-writer.ts';

async function startedRun(options: Parameters<typeof clientWorld>[0] = {}) {
  const world = await clientWorld(options);
  const run = await world.mill.enqueue(request);
  const writer = new RunWriter(world.redis, world.keys, run.runId);
  await writer.start();
  return { ...world, run, writer };
}

/** Collects in the background what a subscriber receives. */
function collect(events: AsyncIterable<RunEvent>) {
  const numbers: number[] = [];
  const types: string[] = [];
  const ended = (async () => {
    for await (const event of events) {
      numbers.push(event.sequenceNumber);
      types.push(event.type);
    }
  })();
  ended.catch(() => {});
  return { numbers, types, ended, reached: (n: number) => until(`event ${n}`, () => numbers.at(-1) === n) };
}

function upTo(last: number, first = 1): number[] {
  return Array.from({ length: last - first + 1 }, (_, i) => first + i);
}

async function subscriberCount(redis: { pubsub(...args: ['NUMSUB', string]): Promise<unknown[]> }, channel: string) {
  return Number((await redis.pubsub('NUMSUB', channel))[1]);
}

test('a subscriber from the start gets every event in order and ends with the terminal one', async () => {
  const { run, writer } = await startedRun();
  const all = collect(run.events());
  await all.reached(1);
  await writer.text(40);
  await writer.text(1);
  await writer.end();
  await all.ended;
  expect(all.numbers).toEqual(upTo(43));
  expect(all.types.at(-1)).toBe('run.completed');
});

test('a late subscriber of a run that has ended replays its whole log, over several pages, without subscribing', async () => {
  const { run, writer, redis, keys } = await startedRun();
  await writer.text(1_300);
  await writer.end();
  const all = collect(run.events());
  await all.ended;
  expect(all.numbers).toEqual(upTo(1_302));
  expect(await subscriberCount(redis, keys.live(run.runId))).toBe(0);
});

test('a subscriber after a number gets strictly what follows it, from the log and live', async () => {
  const { run, writer } = await startedRun();
  await writer.text(9);
  const rest = collect(run.events({ after: 4 }));
  await rest.reached(10);
  await writer.text(2);
  await writer.end();
  await rest.ended;
  expect(rest.numbers).toEqual(upTo(13, 5));
});

test('a subscriber ahead of the run waits for what follows its number', async () => {
  const { run, writer, redis, keys } = await startedRun();
  const ahead = collect(run.events({ after: 3 }));
  await until('subscribed', async () => (await subscriberCount(redis, keys.live(run.runId))) === 1);
  await writer.text(3);
  await writer.end();
  await ahead.ended;
  expect(ahead.numbers).toEqual([4, 5]);
});

test('a subscriber that has the end already, or is past it, ends at once', async () => {
  const { run, writer } = await startedRun();
  await writer.end();
  for (const after of [2, 3, 1_000]) {
    const none = collect(run.events({ after }));
    await none.ended;
    expect(none.numbers).toEqual([]);
  }
});

test('events whose messages were lost come with the next message, in order', async () => {
  const { run, writer } = await startedRun();
  const all = collect(run.events());
  await all.reached(1);
  await writer.text(5, { unpublished: true });
  await writer.text(1);
  await all.reached(7);
  await writer.end();
  await all.ended;
  expect(all.numbers).toEqual(upTo(8));
});

test('events whose messages were lost come with the reading after silence, time and again', async () => {
  const { run, writer, redis, keys } = await startedRun({ idleMs: 40 });
  const all = collect(run.events());
  await until('subscribed', async () => (await subscriberCount(redis, keys.live(run.runId))) === 1);
  await all.reached(1);
  await writer.text(1, { unpublished: true });
  await all.reached(2);
  await writer.end('completed', { unpublished: true });
  await all.ended;
  expect(all.types).toEqual(['run.queued', 'text.delta', 'run.completed']);
});

test('a message that is not a list of events makes the log be read again', async () => {
  const { run, writer, redis, keys } = await startedRun({ idleMs: 60_000 });
  const all = collect(run.events());
  await until('subscribed', async () => (await subscriberCount(redis, keys.live(run.runId))) === 1);
  for (const nonsense of ['{', '7']) {
    await writer.text(1, { unpublished: true });
    await redis.publish(keys.live(run.runId), nonsense);
    await all.reached(writer.sequence);
  }
  expect(all.numbers).toEqual(upTo(3));
});

test('an event of an unknown type passes through', async () => {
  const { run, writer } = await startedRun();
  await writer.emit([{ type: 'some.future.type', extra: 1 } as never]);
  await writer.end();
  const all = collect(run.events());
  await all.ended;
  expect(all.types).toEqual(['run.queued', 'some.future.type', 'run.completed']);
});

test('subscribers survive that Redis drops all subscriber connections, without a gap or a repeat', async () => {
  const proxy = await startRedisProxy(inject('redisUrl'));
  onTestFinished(() => proxy[Symbol.asyncDispose]());
  const { prefix, run, writer } = await startedRun();
  const mill = new Millrace({ redis: proxy.url, prefix });
  onTestFinished(() => mill.close());
  const readers = Array.from({ length: 5 }, () => collect(mill.events(run.runId)));
  for (let round = 0; round < 6; round++) {
    await Promise.all(readers.map((reader) => reader.reached(writer.sequence)));
    proxy.cut();
    await writer.text(30);
  }
  await Promise.all(readers.map((reader) => reader.reached(writer.sequence)));
  proxy.cut();
  await writer.end();
  await Promise.all(readers.map((reader) => reader.ended));
  for (const reader of readers) expect(reader.numbers).toEqual(upTo(182));
});

test('a hundred subscribers of one run are one subscription of Redis, and it ends with the last of them', async () => {
  const { mill, run, writer, redis, keys } = await startedRun();
  const stop = new AbortController();
  const readers = Array.from({ length: 100 }, () => collect(mill.events(run.runId, { signal: stop.signal })));
  await Promise.all(readers.map((reader) => reader.reached(1)));
  await until('subscribed', async () => (await subscriberCount(redis, keys.live(run.runId))) === 1);
  await writer.text(20);
  await Promise.all(readers.map((reader) => reader.reached(21)));
  expect(await subscriberCount(redis, keys.live(run.runId))).toBe(1);
  for (const reader of readers) expect(reader.numbers).toEqual(upTo(21));

  stop.abort();
  await Promise.all(readers.map((reader) => reader.ended));
  await until('unsubscribed', async () => (await subscriberCount(redis, keys.live(run.runId))) === 0);
});

test('subscribers that wake together read the log once', async () => {
  const { url } = await OwnRedis.start();
  const redis = await testRedis('work', url);
  const mill = new Millrace({ redis: url, idleMs: 60_000 });
  onTestFinished(() => mill.close());
  const run = await mill.enqueue(request);
  const writer = new RunWriter(redis, keysFor('mr'), run.runId);
  const readers = Array.from({ length: 20 }, () => collect(mill.events(run.runId)));
  await until('subscribed', async () => (await subscriberCount(redis, keysFor('mr').live(run.runId))) === 1);
  await writer.text(1);
  await Promise.all(readers.map((reader) => reader.reached(2)));
  const before = await readCount(redis);
  await writer.text(5, { unpublished: true });
  await writer.text(1);
  await Promise.all(readers.map((reader) => reader.reached(8)));
  // One on a quiet machine; twenty where each reads for itself.
  expect((await readCount(redis)) - before).toBeLessThanOrEqual(3);
});

async function readCount(redis: { info(section: string): Promise<string> }): Promise<number> {
  return Number(/cmdstat_xrange:calls=(\d+)/.exec(await redis.info('commandstats'))?.[1] ?? 0);
}

test('a slow subscriber loses nothing and delays no other', async () => {
  const { run, writer } = await startedRun({ idleMs: 60_000 });
  const slow = run.events()[Symbol.asyncIterator]();
  const fast = collect(run.events());
  const numbers = [(await slow.next()).value.sequenceNumber];
  await fast.reached(1);
  // The second step subscribes; from then on the slow one takes nothing while 3,000 events arrive.
  const second = slow.next();
  await writer.text(1);
  numbers.push((await second).value.sequenceNumber);
  for (let i = 0; i < 30; i++) await writer.text(100);
  await fast.reached(3_002);
  await writer.end();
  await fast.ended;
  for (let step = await slow.next(); !step.done; step = await slow.next()) numbers.push(step.value.sequenceNumber);
  expect(numbers).toEqual(upTo(3_003));
});

test('events that the buffer has lost are refused with the first one there is', async () => {
  const { mill, run, writer, redis, keys } = await startedRun();
  await writer.text(50);
  await redis.xtrim(keys.events(run.runId), 'MAXLEN', 10);
  const refused = await collect(run.events()).ended.catch((error: unknown) => error);
  expect(refused).toMatchObject({ code: 'replay_truncated', details: { firstSequence: 42 } });
  await writer.end();
  const rest = collect(mill.events(run.runId, { after: 41 }));
  await rest.ended;
  expect(rest.numbers).toEqual(upTo(52, 42));
});

test('events past their retention are not found, but a subscriber who has them all just ends', async () => {
  const { run, writer, redis, keys } = await startedRun();
  await writer.end();
  await redis.del(keys.events(run.runId));
  expect(await codeOf(collect(run.events()).ended)).toBe('execution_not_found');
  expect(await codeOf(collect(run.events({ after: 1 })).ended)).toBe('execution_not_found');
  await collect(run.events({ after: 2 })).ended;
});

test('a start that is not a whole number from 0 is refused', async () => {
  const { run } = await startedRun();
  for (const after of [-1, 1.5, Number.NaN, 'x' as never]) {
    expect(await codeOf(collect(run.events({ after })).ended)).toBe('validation');
  }
});

test('an abort ends a waiting subscriber without an error, also one that was aborted before', async () => {
  const { run, redis, keys } = await startedRun();
  const stop = new AbortController();
  const reader = collect(run.events({ signal: stop.signal }));
  await until('subscribed', async () => (await subscriberCount(redis, keys.live(run.runId))) === 1);
  stop.abort(new Error('gone'));
  await reader.ended;
  const never = collect(run.events({ signal: stop.signal } satisfies EventsOptions));
  await never.ended;
  expect(never.numbers).toEqual([]);
});

test('leaving the loop, or returning in the middle of a wait, unsubscribes', async () => {
  const { run, writer, redis, keys } = await startedRun();
  const channel = keys.live(run.runId);
  await writer.text(1);
  for await (const event of run.events()) if (event.sequenceNumber === 2) break;

  const iterator = run.events({ after: 2 })[Symbol.asyncIterator]();
  const waiting = iterator.next();
  await until('subscribed', async () => (await subscriberCount(redis, channel)) === 1);
  await iterator.return?.();
  expect(await waiting).toEqual({ done: true, value: undefined });
  await until('unsubscribed', async () => (await subscriberCount(redis, channel)) === 0);
});

test('a subscriber that comes while the last one leaves is subscribed', async () => {
  const { run, writer } = await startedRun({ idleMs: 60_000 });
  for (let i = 0; i < 20; i++) {
    const stop = new AbortController();
    const leaving = collect(run.events({ signal: stop.signal, after: writer.sequence }));
    await writer.text(1);
    await leaving.reached(writer.sequence);
    stop.abort();
    const coming = collect(run.events({ after: writer.sequence }));
    await writer.text(1);
    await coming.reached(writer.sequence);
    expect(coming.numbers).toEqual([writer.sequence]);
  }
});

test('closing the client ends its subscribers', async () => {
  const { mill, run, redis, keys } = await startedRun();
  const reader = collect(run.events());
  await until('subscribed', async () => (await subscriberCount(redis, keys.live(run.runId))) === 1);
  await mill.close();
  await expect(reader.ended).resolves.toBeUndefined();
});

test('a subscriber never asks for a channel of a run that does not exist', async () => {
  const { mill, redis, prefix } = await clientWorld();
  expect(await codeOf(collect(mill.events('01HZZZZZZZZZZZZZZZZZZZZZZZ')).ended)).toBe('run_not_found');
  expect(await codeOf(collect(mill.events('a:b')).ended)).toBe('invalid_id');
  expect(await redis.pubsub('CHANNELS', `${prefix}:*`)).toEqual([]);
});
