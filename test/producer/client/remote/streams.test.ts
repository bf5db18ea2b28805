import { onTestFinished, expect, test } from 'vitest';
import { followRemote } from '../../../../src/producer/client/remote/follow.ts';
import { Link } from '../../../../src/producer/client/remote/link.ts';
import { Millrace } from '../../../../src/producer/client/millrace.ts';
import type { RunEvent } from '../../../../src/shared/contract/event.ts';
import { listenAgain } from '../../../contract/over-http.ts';
import { until } from '../../../support/redis.ts';
import { endRun, serverWorld } from '../../http/server-world.ts';
import { meddlingProxy } from './proxy.ts';

function clientOf(url: string): Millrace {
  const mill = new Millrace({ url });
  onTestFinished(() => mill.close());
  return mill;
}

/** Collects what comes. */
function collect<T>(events: AsyncIterable<T>) {
  const all: T[] = [];
  const ended = (async () => {
    for await (const event of events) all.push(event);
  })();
  ended.catch(() => {});
  return { all, ended };
}

const numbers = (events: readonly RunEvent[]) => events.map(({ sequenceNumber }) => sequenceNumber);
const upTo = (last: number) => Array.from({ length: last }, (_, i) => i + 1);

test.each([{ cutAfterEvents: 3 }, { cutAfterEvents: 1, roughly: true }, { cutAfterEvents: 7, roughly: true }] as const)(
  'a stream through a proxy that cuts it (%o) has every event once, in order, to the end',
  async (cutting) => {
    const world = await serverWorld();
    const proxy = await meddlingProxy(world.url);
    proxy.meddle(/\/events/, ...Array.from({ length: 200 }, () => cutting));
    const run = await world.start();
    const seen = collect(clientOf(proxy.url).events(run.runId));
    await run.text(40);
    await endRun(run);
    await seen.ended;
    expect(numbers(seen.all)).toEqual(upTo(42));
    expect(proxy.seen.filter((name) => name.includes('/events')).length).toBeGreaterThan(5);
  },
);

test('each request goes on after the last event that its reader has taken', async () => {
  const world = await serverWorld();
  const proxy = await meddlingProxy(world.url);
  proxy.meddle(/\/events/, { cutAfterEvents: 2 }, { cutAfterEvents: 2 });
  const run = await world.start();
  await run.text(5);
  await endRun(run);
  await collect(clientOf(proxy.url).events(run.runId)).ended;
  const asked = proxy.seen.filter((name) => name.includes('/events')).map((name) => new URL(name.slice(4), world.url));
  expect(asked.map(({ searchParams }) => searchParams.get('after'))).toEqual(['0', '2', '4']);
});

test('a connection that falls silent is opened anew', async () => {
  const world = await serverWorld({ keepAliveMs: 50 });
  const proxy = await meddlingProxy(world.url);
  proxy.meddle(/\/events/, 'fall silent', 'fall silent');
  const run = await world.start();
  await run.text(3);
  await endRun(run);
  const link = new Link({ url: proxy.url });
  onTestFinished(() => link.close());
  const seen = collect(followRemote(link, run.runId, { after: 0, signal: undefined }, { silenceMs: 300 }));
  await seen.ended;
  expect(numbers(seen.all)).toEqual(upTo(5));
});

test('signs of life keep a quiet stream open', async () => {
  const world = await serverWorld({ keepAliveMs: 20 });
  const proxy = await meddlingProxy(world.url);
  const run = await world.start();
  const link = new Link({ url: proxy.url });
  onTestFinished(() => link.close());
  const seen = collect(followRemote(link, run.runId, { after: 0, signal: undefined }, { silenceMs: 500 }));
  await until('the first event', () => seen.all.length === 1);
  await new Promise((resolve) => setTimeout(resolve, 1_200));
  expect(proxy.seen.filter((name) => name.includes('/events'))).toHaveLength(1);
  await endRun(run);
  await seen.ended;
});

test('a stream, a wait and the feed of all runs outlive that their producer drains and another takes its place', async () => {
  const world = await serverWorld();
  const run = await world.start();
  const mill = clientOf(world.url);
  const seen = collect(mill.events(run.runId));
  const feed = collect(mill.firehose());
  const result = mill.result(run.runId);
  await until('it is followed', () => seen.all.length === 1);
  await world.server.close();
  await run.text(2);
  await listenAgain(world.mill, Number(new URL(world.url).port));
  await until('the stream goes on', () => seen.all.length === 3);
  // The feed is live only: it has what comes after it is connected again.
  const probe = async () => {
    await world.start();
    return feed.all.some(({ type }) => type === 'run.queued');
  };
  await until('the feed goes on', probe);
  await endRun(run);
  await seen.ended;
  expect(numbers(seen.all)).toEqual(upTo(4));
  expect(await result).toMatchObject({ status: 'completed', text: 'It is on its way.' });
});

test('an abort, a reader that leaves and a client that closes end a stream without an error', async () => {
  const world = await serverWorld();
  const run = await world.start();
  const mill = clientOf(world.url);
  const stop = new AbortController();
  const aborted = collect(mill.events(run.runId, { signal: stop.signal }));
  const closed = collect(mill.events(run.runId));
  await until('both follow', () => aborted.all.length === 1 && closed.all.length === 1);
  stop.abort();
  await aborted.ended;
  for await (const _ of mill.events(run.runId)) break;
  await mill.close();
  await closed.ended;
  expect([aborted.all, closed.all].map(numbers)).toEqual([[1], [1]]);
  await until('no stream is open at the producer', async () =>
    /^millrace_event_streams 0$/m.test(await (await fetch(`${world.url}/metrics`)).text()),
  );
});

test('a reader that has the last event gets no other, and asks no further', async () => {
  const world = await serverWorld();
  const run = await world.start();
  await run.text(1);
  await endRun(run);
  const seen = collect(clientOf(world.url).events(run.runId, { after: 3 }));
  await seen.ended;
  expect(seen.all).toEqual([]);
});

test('a dialect names the tenant of the key', async () => {
  const world = await serverWorld();
  const run = await world.start();
  await run.text(1);
  await endRun(run);
  const lines = collect(clientOf(world.url).events(run.runId, { dialect: 'ndjson-chat' }));
  await lines.ended;
  const beside = collect(world.mill.events(run.runId, { dialect: 'ndjson-chat' }));
  await beside.ended;
  expect(lines.all).toEqual(beside.all);
});
