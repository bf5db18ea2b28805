import { expect, test } from 'vitest';
import { purgedAtOnce } from '../../src/shared/state/thread/list.ts';
import {
  aRun,
  asks,
  enter,
  acquire,
  tenant,
  written,
  type MakeThreadsWorld,
  type ThreadsWorld,
} from './threads-world.ts';

/** A free thread, last changed now. */
async function idle(world: ThreadsWorld, threadId: string, agentId = 'support'): Promise<void> {
  await world.threads.acquire({ ...aRun(`run-${threadId}`, threadId), agentId });
  await world.threads.leave(tenant, threadId, `run-${threadId}`);
  world.clock.jump(1_000);
}

async function all(world: ThreadsWorld, limit: number, agent?: string): Promise<string[]> {
  const seen: string[] = [];
  let cursor: string | undefined;
  for (let pages = 0; pages < 100; pages++) {
    const page = await world.threads.list(tenant, {
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
export function threadsLists(makeWorld: MakeThreadsWorld): void {
  test('threads are listed with the last changed first, in pages, for their tenant only', async () => {
    const world = await makeWorld();
    for (const id of ['one', 'two', 'three', 'four']) await idle(world, id);
    await world.threads.enter({ ...aRun('x', 'foreign'), tenant: 'other' });
    expect(await all(world, 3)).toEqual(['four', 'three', 'two', 'one']);
    await world.threads.append(await acquire(world, 'new', 'one'), 'op', [asks('new', 'hi')]);
    world.clock.jump(1_000);
    await world.threads.update(tenant, 'three', { title: 'T' });
    expect(await all(world, 2)).toEqual(['three', 'one', 'four', 'two']);
    const { threads } = await world.threads.list(tenant, { limit: 2 });
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
    const { threads } = await makeWorld();
    for (const cursor of ['', 'x', '12', '12-', '12-ä', '-t1']) {
      await expect(threads.list(tenant, { limit: 1, cursor })).rejects.toMatchObject({ code: 'validation' });
      await expect(threads.purge(tenant, cursor)).rejects.toMatchObject({ code: 'validation' });
    }
  });

  test('a deleted thread is gone, and its id begins a new one', async () => {
    const world = await makeWorld();
    await world.threads.append(await acquire(world, 'a'), 'op', [asks('a', 'hi')]);
    await world.threads.leave(tenant, 't1', 'a');
    await world.threads.remove(tenant, 't1');
    await expect(world.threads.get(tenant, 't1')).rejects.toMatchObject({ code: 'not_found' });
    await expect(world.threads.remove(tenant, 't1')).rejects.toMatchObject({ code: 'not_found' });
    expect(await all(world, 10)).toEqual([]);
    expect(await enter(world, 'a')).toEqual({ kind: 'left' });
    expect(await world.threads.enter({ ...aRun('b'), agentId: 'sales' })).toEqual({ kind: 'turn' });
    expect(await written(world)).toEqual([]);
    expect(await all(world, 10)).toEqual(['t1']);
    await world.threads.leave(tenant, 't1', 'b');
    await world.threads.remove(tenant, 't1');
    await world.threads.append(await acquire(world, 'a'), 'op', [asks('a', 'hi')]);
    expect(await written(world)).toEqual(['a:user']);
  });

  test('a thread in use is not deleted, and the refusal names the runs', async () => {
    const world = await makeWorld();
    for (const run of ['a', 'b', 'c']) await enter(world, run);
    await expect(world.threads.remove(tenant, 't1')).rejects.toMatchObject({
      code: 'concurrent_run',
      message: 'thread t1 is in use: run a holds it, and b, c wait for it',
      details: { runs: ['a', 'b', 'c'] },
    });
    for (let i = 0; i < 20; i++) await enter(world, `more-${i}`);
    const refused = world.threads.remove(tenant, 't1');
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
    const first = await world.threads.purge(tenant);
    expect(first.removed + first.kept.length).toBe(purgedAtOnce);
    const second = await world.threads.purge(tenant, first.cursor);
    expect(second.cursor).toBeUndefined();
    expect(second.removed + second.kept.length).toBe(20);
    const kept = [...first.kept, ...second.kept].toSorted();
    expect(kept).toEqual(['t107', 't207', 't307', 't407', 't507', 't7']);
    expect((await all(world, 100)).toSorted()).toEqual(kept);
    expect(await world.threads.get('other', 'foreign')).toMatchObject({ threadId: 'foreign' });
  });
}
