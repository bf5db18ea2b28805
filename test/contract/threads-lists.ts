import { expect, test } from 'vitest';
import { listThreads, purgedAtOnce, purgeThreads, removeThread } from '../../src/shared/state/thread/list.ts';
import type { RedisThreadsWorld } from './threads-redis-world.ts';
import { aRun, asks, enter, acquire, tenant, written } from './threads-world.ts';

const t1 = { tenant, threadId: 't1' };

/** A free thread, last changed now. */
async function idle(world: RedisThreadsWorld, threadId: string, agentId = 'support'): Promise<void> {
  await world.threads.acquire({ ...aRun(`run-${threadId}`, threadId), agentId });
  await world.threads.leave(tenant, threadId, `run-${threadId}`);
  world.clock.jump(1_000);
}

async function all(world: RedisThreadsWorld, limit: number, agent?: string): Promise<string[]> {
  const seen: string[] = [];
  let cursor: string | undefined;
  for (let pages = 0; pages < 100; pages++) {
    const page = await listThreads(world.space, tenant, {
      limit,
      ...(agent !== undefined && { agent }),
      ...(cursor !== undefined && { cursor }),
    });
    expect(page.threads.length).toBeLessThanOrEqual(limit);
    seen.push(...page.threads.map(({ threadId }) => threadId));
    cursor = page.cursor;
    if (cursor === undefined) break;
  }
  expect(cursor, 'a list has an end').toBeUndefined();
  return seen;
}

/** The threads of a tenant: listed and deleted. */
export function threadsLists(makeWorld: () => Promise<RedisThreadsWorld>): void {
  test('threads are listed with the last changed first, in pages, for their tenant only', async () => {
    const world = await makeWorld();
    for (const id of ['one', 'two', 'three', 'four']) await idle(world, id);
    await world.threads.enter({ ...aRun('x', 'foreign'), tenant: 'other' });
    expect(await all(world, 3)).toEqual(['four', 'three', 'two', 'one']);
    await world.threads.append(await acquire(world, 'new', 'one'), 'op', [asks('new', 'hi')]);
    world.clock.jump(1_000);
    await world.threads.update(tenant, 'three', { title: 'T' });
    expect(await all(world, 2)).toEqual(['three', 'one', 'four', 'two']);
    const { threads } = await listThreads(world.space, tenant, { limit: 2 });
    expect(threads[1]).toEqual(await world.threads.get(tenant, 'one'));
  });

  test('threads that changed in the same millisecond are listed once each', async () => {
    const world = await makeWorld();
    const ids = Array.from({ length: 25 }, (_, i) => `t-${i}`);
    for (const id of ids) await enter(world, `r-${id}`, 'queue', id);
    expect((await all(world, 10)).toSorted()).toEqual(ids.toSorted());
  });

  test('a list whose last page is full has an end, also where nothing in it is wanted', async () => {
    const world = await makeWorld();
    const ids = Array.from({ length: 100 }, (_, i) => `t-${i}`);
    for (const id of ids) await enter(world, `r-${id}`, 'queue', id);
    expect((await all(world, 100)).toSorted()).toEqual(ids.toSorted());
    expect(await all(world, 100, 'unknown')).toEqual([]);
  });

  test('threads are listed by their agent', async () => {
    const world = await makeWorld();
    for (const id of ['a1', 'a2', 'a3']) await idle(world, id);
    await idle(world, 'b1', 'sales');
    await idle(world, 'a4');
    expect(await all(world, 1, 'sales')).toEqual(['b1']);
    expect(await all(world, 2, 'support')).toEqual(['a4', 'a3', 'a2', 'a1']);
  });

  test('a cursor that is none is refused', async () => {
    const { space } = await makeWorld();
    for (const cursor of ['', 'x', '12', '12-', '12-ä', '-t1']) {
      await expect(listThreads(space, tenant, { limit: 1, cursor })).rejects.toMatchObject({ code: 'validation' });
      await expect(purgeThreads(space, tenant, cursor)).rejects.toMatchObject({ code: 'validation' });
    }
  });

  test('a deleted thread is gone, and its id begins a new one', async () => {
    const world = await makeWorld();
    await world.threads.append(await acquire(world, 'a'), 'op', [asks('a', 'hi')]);
    await world.threads.leave(tenant, 't1', 'a');
    const foreign = removeThread(world.space, { ...t1, tenant: 'third' });
    await expect(foreign).rejects.toMatchObject({ code: 'not_found' });
    await removeThread(world.space, t1);
    await expect(world.threads.get(tenant, 't1')).rejects.toMatchObject({ code: 'not_found' });
    await expect(removeThread(world.space, t1)).rejects.toMatchObject({ code: 'not_found' });
    expect(await all(world, 10)).toEqual([]);
    expect(await enter(world, 'a')).toEqual({ kind: 'left' });
    expect(await world.threads.enter({ ...aRun('b'), agentId: 'sales' })).toEqual({ kind: 'turn' });
    expect(await written(world)).toEqual([]);
    expect(await all(world, 10)).toEqual(['t1']);
    await world.threads.leave(tenant, 't1', 'b');
    await removeThread(world.space, t1);
    await world.threads.append(await acquire(world, 'a'), 'op', [asks('a', 'hi')]);
    expect(await written(world)).toEqual(['a:user']);
  });

  test('events of a deleted thread are gone, and one that is made again begins at 1', async () => {
    const world = await makeWorld();
    const origin = { agentId: 'support', runId: 'a' };
    const emit = async (title: string) =>
      await world.threads.emit(t1, origin, `op ${title}`, { type: 'thread.title_generated', title });
    await acquire(world, 'a');
    await emit('one');
    await world.threads.leave(tenant, 't1', 'a');
    await removeThread(world.space, t1);
    await emit('gone');
    await acquire(world, 'b');
    expect(await world.threads.events(t1, { limit: 1 })).toEqual({ events: [], more: false });
    await emit('again');
    expect((await world.threads.events(t1, { limit: 1 })).events).toMatchObject([
      { sequenceNumber: 1, title: 'again' },
    ]);
  });

  test('a thread in use is not deleted, and the refusal names the runs', async () => {
    const world = await makeWorld();
    for (const run of ['a', 'b', 'c']) await enter(world, run);
    await expect(removeThread(world.space, t1)).rejects.toMatchObject({
      code: 'concurrent_run',
      message: 'thread t1 is in use: run a holds it, and b, c wait for it',
      details: { runs: ['a', 'b', 'c'] },
    });
    for (let i = 0; i < 20; i++) await enter(world, `more-${i}`);
    const refused = removeThread(world.space, t1);
    await expect(refused).rejects.toMatchObject({
      details: { runs: expect.objectContaining({ length: 10 }) as unknown },
    });
    expect((await world.threads.get(tenant, 't1')).waiting).toBe(22);
  });

  test('a purge deletes all threads of one tenant but those in use, and says how far it is', async () => {
    const world = await makeWorld();
    const count = purgedAtOnce + 20;
    for (let i = 0; i < count; i++) {
      await world.threads.acquire(aRun(`r${i}`, `t${i}`));
      if (i % 100 !== 7) await world.threads.leave(tenant, `t${i}`, `r${i}`);
      if (i === 100) world.clock.jump(1);
    }
    await world.threads.enter({ ...aRun('x', 'foreign'), tenant: 'other' });
    await world.threads.leave('other', 'foreign', 'x');
    const first = await purgeThreads(world.space, tenant);
    expect(first.removed + first.kept.length).toBe(purgedAtOnce);
    const second = await purgeThreads(world.space, tenant, first.cursor);
    expect(second.cursor).toBeUndefined();
    expect(second.removed + second.kept.length).toBe(20);
    const kept = [...first.kept, ...second.kept].toSorted();
    expect(kept).toEqual(['t107', 't207', 't307', 't407', 't507', 't7']);
    expect((await all(world, 100)).toSorted()).toEqual(kept);
    expect(await world.threads.get('other', 'foreign')).toMatchObject({ threadId: 'foreign' });
  });
}
