import { expect, test } from 'vitest';
import type { RunEvent } from '../../../../src/shared/contract/event.ts';
import { EventBuffer } from '../../../../src/producer/client/follow/event-hub.ts';

const event = (sequenceNumber: number) => ({ sequenceNumber }) as RunEvent;
const never = new AbortController().signal;

test('a buffer gives what came, once, in order', () => {
  const inbox = new EventBuffer(10);
  inbox.onEvents([event(1), event(2)]);
  inbox.onEvents([event(3)]);
  expect(inbox.take()).toEqual({ events: [event(1), event(2), event(3)], missed: false });
  expect(inbox.take()).toEqual({ events: [], missed: false });
});

test('a full buffer is emptied and says that something is missing', () => {
  const inbox = new EventBuffer(3);
  inbox.onEvents([event(1), event(2)]);
  inbox.onEvents([event(3), event(4)]);
  inbox.onEvents([event(5)]);
  expect(inbox.take()).toEqual({ events: [], missed: true });
  inbox.onEvents([event(6)]);
  expect(inbox.take()).toEqual({ events: [event(6)], missed: false });
});

test('a waiting reader wakes on an event, on something missed and on an abort, and not before', async () => {
  const inbox = new EventBuffer(3);
  const woken: string[] = [];
  const wait = async (name: string, stop = never) => {
    await inbox.filled(stop);
    woken.push(name);
    inbox.take();
  };
  const first = wait('event');
  await Promise.resolve();
  expect(woken).toEqual([]);
  inbox.onEvents([event(1)]);
  await first;
  const second = wait('missed');
  inbox.onSilence();
  await second;
  const stop = new AbortController();
  const third = wait('abort', stop.signal);
  stop.abort();
  await third;
  inbox.onEvents([event(2)]);
  await wait('there already');
  expect(woken).toEqual(['event', 'missed', 'abort', 'there already']);
});
