import { expect, test } from 'vitest';
import { threadEvent, type ThreadEventBody } from '../../src/shared/contract/thread/thread.ts';
import { acquire, tenant, type MakeThreadsWorld, type ThreadsWorld } from './threads-world.ts';

const ref = { tenant, threadId: 't1' };
const origin = { agentId: 'support', runId: 'a' };
const titled = (title: string): ThreadEventBody => ({ type: 'thread.title_generated', title });

async function emitAll(world: ThreadsWorld, ...titles: string[]): Promise<void> {
  for (const title of titles) await world.threads.emit(ref, origin, `op ${title}`, titled(title));
}

/** Events of a thread after its runs. */
export function threadsEvents(makeWorld: MakeThreadsWorld): void {
  test('events after a run are added in order, numbered from 1, and read page by page', async () => {
    const world = await makeWorld();
    await acquire(world, 'a');
    await emitAll(world, 'one', 'two "quoted"', 'three');
    const { events, more } = await world.threads.events(ref, { limit: 2 });
    const timestamp = new Date(world.clock.now()).toISOString();
    const base = { v: 1, timestamp, threadId: 't1', agentId: 'support', runId: 'a' };
    expect(events).toEqual([
      { ...base, sequenceNumber: 1, ...titled('one') },
      { ...base, sequenceNumber: 2, ...titled('two "quoted"') },
    ]);
    for (const event of events) expect(threadEvent.parse(event)).toEqual(event);
    expect(more).toBe(true);
    const rest = await world.threads.events(ref, { after: 2, limit: 2 });
    expect([rest.events.map(({ sequenceNumber }) => sequenceNumber), rest.more]).toEqual([[3], false]);
  });

  test('the same event emitted again right after it is one event', async () => {
    const world = await makeWorld();
    await acquire(world, 'a');
    await emitAll(world, 'one', 'one', 'two');
    expect((await world.threads.events(ref, { limit: 9 })).events.map(({ sequenceNumber }) => sequenceNumber)).toEqual([
      1, 2,
    ]);
  });

  test('of the events of a thread the newest 1,000 are kept, with their numbers', async () => {
    const world = await makeWorld();
    await acquire(world, 'a');
    const all = Array.from({ length: 1_003 }, (_, i) => emitAll(world, String(i)));
    await Promise.all(all);
    const { events, more } = await world.threads.events(ref, { limit: 2_000 });
    expect([events.length, events[0]?.sequenceNumber, events.at(-1)?.sequenceNumber, more]).toEqual([
      1_000,
      4,
      1_003,
      false,
    ]);
  });

  test('a thread that does not exist gets no events, and one that is made then has none', async () => {
    const world = await makeWorld();
    await emitAll(world, 'unknown');
    await expect(world.threads.events(ref, { limit: 1 })).rejects.toMatchObject({ code: 'not_found' });
    await acquire(world, 'a');
    expect(await world.threads.events(ref, { limit: 1 })).toEqual({ events: [], more: false });
  });

  test('events are no part of the log, and do not change the thread', async () => {
    const world = await makeWorld();
    await acquire(world, 'a');
    const before = await world.threads.get(tenant, 't1');
    world.clock.jump(1_000);
    await emitAll(world, 'one');
    expect(await world.threads.get(tenant, 't1')).toEqual(before);
    expect(await world.threads.read(tenant, 't1', { limit: 9 })).toEqual({ entries: [], more: false });
  });
}
