import { lookAfterMs, leftMs } from '../../src/shared/state/thread/lock.ts';
import { expect, test } from 'vitest';
import { aRun, asks, ends, enter, acquire, tenant, written, type MakeThreadsWorld } from './threads-world.ts';

/** Who may go on with a thread, and when. */
export function threadsLine(makeWorld: MakeThreadsWorld): void {
  test('the first run makes the thread and has its turn, and the others wait in the order in which they came', async () => {
    const world = await makeWorld();
    expect(await enter(world, 'a')).toEqual({ kind: 'turn' });
    expect(await enter(world, 'b')).toEqual({ kind: 'waiting', lockOwner: 'a', ahead: 1, cancel: false });
    expect(await enter(world, 'c')).toEqual({ kind: 'waiting', lockOwner: 'a', ahead: 2, cancel: false });
    expect(await world.threads.get(tenant, 't1')).toEqual({
      v: 1,
      threadId: 't1',
      agentId: 'support',
      createdAt: new Date(world.clock.now()).toISOString(),
      updatedAt: new Date(world.clock.now()).toISOString(),
      lockOwner: 'a',
      waiting: 2,
      lastSeq: 0,
    });
  });

  test('a run that enters again keeps its position', async () => {
    const world = await makeWorld();
    for (const run of ['a', 'b', 'c', 'a', 'b']) await enter(world, run);
    expect(await enter(world, 'b')).toMatchObject({ ahead: 1 });
    expect(await enter(world, 'c')).toMatchObject({ ahead: 2 });
    expect((await world.threads.get(tenant, 't1')).waiting).toBe(2);
  });

  test('the first of the wait queue follows a run that leaves, and the last one leaves the thread free', async () => {
    const world = await makeWorld();
    for (const run of ['a', 'b', 'c']) await enter(world, run);
    expect(await world.threads.leave(tenant, 't1', 'a')).toEqual({ next: 'b' });
    expect(await enter(world, 'c')).toMatchObject({ lockOwner: 'b', ahead: 1 });
    expect(await world.threads.leave(tenant, 't1', 'b')).toEqual({ next: 'c' });
    expect(await world.threads.leave(tenant, 't1', 'c')).toEqual({});
    expect(await world.threads.get(tenant, 't1')).not.toHaveProperty('lockOwner');
    expect(await enter(world, 'd')).toEqual({ kind: 'turn' });
  });

  test('a run that leaves the wait queue notifies no other, and those behind it move up', async () => {
    const world = await makeWorld();
    for (const run of ['a', 'b', 'c']) await enter(world, run);
    expect(await world.threads.leave(tenant, 't1', 'b')).toEqual({});
    expect(await enter(world, 'c')).toMatchObject({ ahead: 1 });
    expect(await world.threads.leave(tenant, 't1', 'a')).toEqual({ next: 'c' });
  });

  test('a run that was never there leaves without an effect', async () => {
    const world = await makeWorld();
    expect(await world.threads.leave(tenant, 't1', 'x')).toEqual({});
    await expect(world.threads.get(tenant, 't1')).rejects.toMatchObject({ code: 'not_found' });
    await enter(world, 'a');
    expect(await world.threads.leave(tenant, 't1', 'y')).toEqual({});
    expect(await world.threads.get(tenant, 't1')).toMatchObject({ lockOwner: 'a' });
  });

  test('a repeated leave returns the next run until that one has acquired the lock', async () => {
    const world = await makeWorld();
    for (const run of ['a', 'b', 'c']) await enter(world, run);
    await world.threads.leave(tenant, 't1', 'a');
    expect(await world.threads.leave(tenant, 't1', 'a')).toEqual({ next: 'b' });
    await acquire(world, 'b');
    expect(await world.threads.leave(tenant, 't1', 'a')).toEqual({});
  });

  test('a run that has been claimed again is not taken out with an earlier claim', async () => {
    const world = await makeWorld();
    for (const run of ['a', 'b']) await enter(world, run);
    await acquire(world, 'a');
    await world.threads.acquire({ ...aRun('a'), epoch: 2 });
    expect(await world.threads.leave(tenant, 't1', 'a', 1)).toEqual({});
    expect(await world.threads.get(tenant, 't1')).toMatchObject({ lockOwner: 'a', waiting: 1 });
    expect(await enter(world, 'a')).toEqual({ kind: 'turn' });
    expect(await world.threads.leave(tenant, 't1', 'a', 2)).toEqual({ next: 'b' });
  });

  test('a run that has been claimed again and waits keeps its space, and its turn once it has come', async () => {
    const world = await makeWorld();
    for (const run of ['a', 'b', 'c']) await enter(world, run);
    await acquire(world, 'a');
    expect(await world.threads.leave(tenant, 't1', 'a', 1)).toEqual({ next: 'b' });
    await acquire(world, 'b');
    expect(await world.threads.acquire({ ...aRun('a'), epoch: 2 })).toMatchObject({ kind: 'waiting', ahead: 2 });
    expect(await world.threads.leave(tenant, 't1', 'a', 1)).toEqual({});
    expect(await world.threads.get(tenant, 't1')).toMatchObject({ lockOwner: 'b', waiting: 2 });
    for (const [run, next] of [
      ['b', 'c'],
      ['c', 'a'],
    ] as const)
      expect(await world.threads.leave(tenant, 't1', run, 1)).toEqual({ next });
    expect(await world.threads.leave(tenant, 't1', 'a', 1)).toEqual({});
    expect(await world.threads.get(tenant, 't1')).toMatchObject({ lockOwner: 'a' });
    expect(await world.threads.leave(tenant, 't1', 'a', 2)).toEqual({});
    expect(await world.threads.get(tenant, 't1')).not.toHaveProperty('lockOwner');
  });

  test('a run of which nothing is known leaves whatever claimed it', async () => {
    const world = await makeWorld();
    for (const run of ['a', 'b']) await enter(world, run);
    await world.threads.acquire({ ...aRun('a'), epoch: 2 });
    expect(await world.threads.leave(tenant, 't1', 'a')).toEqual({ next: 'b' });
  });

  test('a run whose execution id had one before acquires the lock with its first claim', async () => {
    const world = await makeWorld();
    await world.threads.acquire({ ...aRun('a'), epoch: 3 });
    await world.threads.leave(tenant, 't1', 'a', 3);
    expect(await world.threads.acquire({ ...aRun('a'), epoch: 2 })).toEqual({ kind: 'stale' });
    world.clock.jump(leftMs + 1);
    expect(await enter(world, 'a')).toEqual({ kind: 'turn' });
    expect(await world.threads.acquire(aRun('a'))).toMatchObject({ kind: 'acquired' });
  });

  test('a late entry of a run that has left takes no space, whether it was there before or not', async () => {
    const world = await makeWorld();
    await enter(world, 'a');
    await world.threads.leave(tenant, 't1', 'a');
    await world.threads.leave(tenant, 't1', 'never');
    expect(await enter(world, 'a')).toEqual({ kind: 'left' });
    expect(await enter(world, 'never')).toEqual({ kind: 'left' });
    expect(await world.threads.get(tenant, 't1')).not.toHaveProperty('lockOwner');
    world.clock.jump(leftMs + 1);
    expect(await enter(world, 'a')).toEqual({ kind: 'turn' });
  });

  test('a run that left and is redriven gets a position when it is claimed', async () => {
    const world = await makeWorld();
    await enter(world, 'a');
    await world.threads.leave(tenant, 't1', 'a');
    await acquire(world, 'a');
    expect(await enter(world, 'a')).toEqual({ kind: 'turn' });
  });

  test('a claimed run acquires the lock when it is next, and waits at the end when it has no position', async () => {
    const world = await makeWorld();
    const first = await world.threads.acquire(aRun('a'));
    expect(first).toMatchObject({
      kind: 'acquired',
      rolledBack: false,
      manifest: { threadId: 't1', agentId: 'support' },
    });
    expect(await world.threads.acquire(aRun('b'))).toEqual({ kind: 'waiting', lockOwner: 'a', ahead: 1 });
    await world.threads.leave(tenant, 't1', 'a');
    expect(await world.threads.acquire(aRun('b'))).toMatchObject({ kind: 'acquired' });
  });

  test('each take-up has a higher fence, whichever run it is', async () => {
    const world = await makeWorld();
    const fences = [(await acquire(world, 'a')).fence, (await acquire(world, 'a')).fence];
    await enter(world, 'b');
    await world.threads.leave(tenant, 't1', 'a');
    fences.push((await acquire(world, 'b')).fence);
    expect(fences).toEqual(fences.toSorted((x, y) => x - y));
    expect(new Set(fences).size).toBe(3);
  });

  test('a thread belongs to one agent, and another agent changes nothing', async () => {
    const world = await makeWorld();
    await enter(world, 'a');
    const other = { ...aRun('b'), agentId: 'sales' };
    expect(await world.threads.enter(other)).toEqual({ kind: 'other_agent', agentId: 'support' });
    expect(await world.threads.acquire(other)).toEqual({ kind: 'other_agent', agentId: 'support' });
    expect((await world.threads.get(tenant, 't1')).waiting).toBe(0);
  });

  test('the same id is another thread for another tenant', async () => {
    const world = await makeWorld();
    await enter(world, 'a');
    expect(await world.threads.enter({ ...aRun('b'), tenant: 'other', agentId: 'sales' })).toEqual({ kind: 'turn' });
    await expect(world.threads.get('third', 't1')).rejects.toMatchObject({ code: 'not_found' });
    await expect(world.threads.read('third', 't1', { limit: 1 })).rejects.toMatchObject({ code: 'not_found' });
    await expect(world.threads.context('third', 't1')).rejects.toMatchObject({ code: 'not_found' });
    await expect(world.threads.update('third', 't1', { title: 'x' })).rejects.toMatchObject({ code: 'not_found' });
  });

  test('a run that is not to wait is refused while the thread is locked, and leaves no trace', async () => {
    const world = await makeWorld();
    const lock = await acquire(world, 'a');
    expect(await enter(world, 'b', 'reject')).toEqual({ kind: 'refused_busy', lockOwner: 'a' });
    await world.threads.suspend(lock);
    expect(await enter(world, 'b', 'reject')).toEqual({ kind: 'refused_suspended', lockOwner: 'a' });
    expect(await world.threads.leave(tenant, 't1', 'a')).toEqual({});
    expect(await enter(world, 'b', 'reject')).toEqual({ kind: 'turn' });
  });

  test('a suspended run keeps its turn, and is not suspended any more once it takes the thread up', async () => {
    const world = await makeWorld();
    const lock = await acquire(world, 'a');
    expect(await world.threads.suspend(lock)).toBe('ok');
    expect(await enter(world, 'b')).toMatchObject({ kind: 'waiting', lockOwner: 'a' });
    expect(await world.threads.get(tenant, 't1')).toMatchObject({ lockOwner: 'a', suspendedBy: 'a' });
    await acquire(world, 'a');
    expect(await world.threads.get(tenant, 't1')).not.toHaveProperty('suspendedBy');
    expect(await world.threads.suspend(lock)).toBe('fenced');
    await world.threads.leave(tenant, 't1', 'a');
    expect(await world.threads.get(tenant, 't1')).not.toHaveProperty('suspendedBy');
  });

  test('a run that interrupts waits before all others and has the lock owner cancelled, also when it asks again', async () => {
    const world = await makeWorld();
    for (const run of ['a', 'b', 'c']) await enter(world, run);
    const asked = { kind: 'waiting', lockOwner: 'a', ahead: 1, cancel: true };
    expect(await enter(world, 'urgent', 'interrupt')).toEqual(asked);
    expect(await enter(world, 'urgent', 'interrupt')).toEqual(asked);
    expect(await enter(world, 'd', 'queue')).toMatchObject({ ahead: 4, cancel: false });
    world.clock.jump(lookAfterMs);
    expect((await world.threads.due(10)).threads[0]).toMatchObject({ next: 'urgent', interrupted: true });
    expect(await world.threads.leave(tenant, 't1', 'a')).toEqual({ next: 'urgent' });
    expect(await world.threads.leave(tenant, 't1', 'urgent')).toEqual({ next: 'b' });
  });

  test('of two who interrupt the later one goes first, and the earlier one does not cancel it', async () => {
    const world = await makeWorld();
    await enter(world, 'a');
    await enter(world, 'one', 'interrupt');
    await enter(world, 'two', 'interrupt');
    await world.threads.leave(tenant, 't1', 'a');
    expect(await enter(world, 'one', 'interrupt')).toEqual({
      kind: 'waiting',
      lockOwner: 'two',
      ahead: 1,
      cancel: false,
    });
  });

  test.each(['interrupt', 'rollback'] as const)(
    'a turn that has written its result has ended, and %s comes too late for it',
    async (onBusy) => {
      const world = await makeWorld();
      const lock = await acquire(world, 'a');
      await world.threads.append(lock, 'end', [asks('a', 'hi'), ends('a', 'completed')]);
      await enter(world, 'b');
      expect(await enter(world, 'urgent', onBusy)).toEqual({
        kind: 'waiting',
        lockOwner: 'a',
        ahead: 1,
        cancel: false,
      });
      world.clock.jump(lookAfterMs);
      expect((await world.threads.due(10)).threads[0]).toMatchObject({ next: 'urgent', interrupted: false });
      expect(await world.threads.leave(tenant, 't1', 'a')).toEqual({ next: 'urgent' });
      expect(await written(world)).toEqual(['a:user', 'a:result']);
      expect(await enter(world, 'later', onBusy)).toMatchObject({ lockOwner: 'urgent', cancel: true });
    },
  );

  test('a run that interrupts an idle thread just has its turn', async () => {
    const world = await makeWorld();
    expect(await enter(world, 'a', 'rollback')).toEqual({ kind: 'turn' });
    const lock = await acquire(world, 'a');
    expect(await world.threads.append(lock, 'op', [asks('a', 'hi')])).toMatchObject({ rolledBack: false });
  });

  test('locked threads are due with the next waiter, and no others', async () => {
    const world = await makeWorld();
    await enter(world, 'a', 'queue', 'one');
    await enter(world, 'b', 'queue', 'one');
    await world.threads.suspend(await acquire(world, 'c', 'two'));
    await enter(world, 'd', 'queue', 'over');
    await world.threads.leave(tenant, 'over', 'd');
    expect((await world.threads.due(10)).threads).toEqual([]);
    world.clock.jump(lookAfterMs);
    const { threads, more } = await world.threads.due(10);
    expect(more).toBe(false);
    const dueAt = expect.any(String) as string;
    expect(threads.toSorted((x, y) => (x.threadId < y.threadId ? -1 : 1))).toEqual([
      { tenant, threadId: 'one', lockOwner: 'a', next: 'b', suspended: false, interrupted: false, dueAt },
      { tenant, threadId: 'two', lockOwner: 'c', suspended: true, interrupted: false, dueAt },
    ]);
  });

  test('a thread that was checked is due at the time that was set, and earlier when a run enters it', async () => {
    const world = await makeWorld();
    for (const id of ['one', 'two', 'three']) await enter(world, `r-${id}`, 'queue', id);
    world.clock.jump(lookAfterMs);
    const { threads } = await world.threads.due(10);
    await enter(world, 'more', 'queue', 'three');
    const nextMs = world.clock.now() + 3_600_000;
    await world.threads.lookAgain(threads.map((thread) => ({ ...thread, nextMs })));
    expect((await world.threads.due(10)).threads).toEqual([]);
    world.clock.jump(lookAfterMs);
    expect((await world.threads.due(10)).threads).toMatchObject([{ threadId: 'three', next: 'more' }]);
    world.clock.jump(3_600_000);
    const first = await world.threads.due(2);
    expect([first.threads[0]?.threadId, first.threads.length, first.more]).toEqual(['three', 2, true]);
  });
}
