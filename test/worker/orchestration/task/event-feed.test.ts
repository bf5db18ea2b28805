import { expect, test } from 'vitest';
import { EventFeed } from '../../../../src/worker/orchestration/task/event-feed.ts';
import { all } from '../../../support/http.ts';

test('a reader gets everything in order, also what came before it', async () => {
  const feed = new EventFeed<number>(10);
  feed.push(1);
  const read = all(feed);
  feed.push(2);
  feed.end();
  feed.push(3);
  expect(await read).toEqual([1, 2]);
});

test('a reader that comes too late for the first gets an error that says so', async () => {
  const feed = new EventFeed<number>(2);
  for (const event of [1, 2, 3]) feed.push(event);
  await expect(all(feed)).rejects.toMatchObject({ code: 'replay_truncated' });
});

test('there is one reader', async () => {
  const feed = new EventFeed<number>(2);
  const iterator = feed[Symbol.asyncIterator]();
  expect(() => feed[Symbol.asyncIterator]()).toThrow(expect.objectContaining({ code: 'concurrent_run' }));
  feed.end();
  expect(await iterator.next()).toMatchObject({ done: true });
});

test('a producer waits for a reader that is behind, until the reader continues or leaves', async () => {
  const feed = new EventFeed<number>(2);
  await feed.room();
  const iterator = feed[Symbol.asyncIterator]();
  for (const event of [1, 2]) feed.push(event);
  const order: string[] = [];
  const room = feed.room().then(() => order.push('room'));
  order.push('before');
  await iterator.next();
  await room;
  expect(order).toEqual(['before', 'room']);
  feed.push(3);
  const again = feed.room();
  await iterator.return?.();
  await again;
  feed.end();
  await feed.drained();
});

test('an error comes after the events that there were', async () => {
  const feed = new EventFeed<number>(2);
  feed.push(1);
  feed.end({ error: new Error('broken') });
  const read: number[] = [];
  const reading = (async () => {
    for await (const event of feed) read.push(event);
  })();
  await expect(reading).rejects.toThrow('broken');
  expect(read).toEqual([1]);
});
