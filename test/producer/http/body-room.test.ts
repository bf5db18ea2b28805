import { expect, test } from 'vitest';
import { BodyRoom } from '../../../src/producer/http/body-room.ts';

const kib = 1024;
const free = 64 * kib;

test('a small body never waits, however full the room is', async () => {
  const room = new BodyRoom({ limitBytes: 0, maxWaitMs: 0 });
  using first = room.open();
  await first.take(free + 1);
  using second = room.open();
  await second.take(free);
  await expect(second.take(1)).rejects.toMatchObject({ code: 'overloaded', retryable: true });
});

test('of two bodies that fill the room together one goes on, and the other follows when it is gone', async () => {
  const room = new BodyRoom({ limitBytes: 100 * kib });
  const first = room.open();
  using second = room.open();
  await first.take(free + 50 * kib);
  await second.take(free + 50 * kib);
  await first.take(kib);
  const order: string[] = [];
  const waiting = second.take(kib).then(() => order.push('second'));
  await first.take(1_000 * kib).then(() => order.push('first'));
  expect(order).toEqual(['first']);
  first[Symbol.dispose]();
  await waiting;
  expect(order).toEqual(['first', 'second']);
});

test('a body that waits for room leaves with its client', async () => {
  const room = new BodyRoom({ limitBytes: 0 });
  using first = room.open();
  await first.take(free + 1);
  using second = room.open();
  const client = new AbortController();
  const waiting = second.take(free + 1, client.signal);
  client.abort(new Error('gone'));
  await expect(waiting).rejects.toThrow('gone');
});

test('a body that ends while it waits for room takes none', async () => {
  const room = new BodyRoom({ limitBytes: 100 * kib, maxWaitMs: 0 });
  const first = room.open();
  await first.take(free + 60 * kib);
  await first.take(60 * kib);
  const second = room.open();
  await second.take(free + 40 * kib);
  const waiting = second.take(40 * kib);
  // Its client is gone: the answer is closed before the reader of the body learns it.
  second[Symbol.dispose]();
  await expect(waiting).rejects.toMatchObject({ code: 'invalid_json' });
  first[Symbol.dispose]();

  using third = room.open();
  await third.take(free + 100 * kib);
  await third.take(kib);
  using fourth = room.open();
  await expect(fourth.take(free + 1)).rejects.toMatchObject({ code: 'overloaded' });
});
