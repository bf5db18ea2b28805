import { expect, test } from 'vitest';
import type { ThreadEntryOf } from '../../src/shared/contract/thread/thread.ts';
import {
  answers,
  aRun,
  asks,
  at,
  calls,
  ends,
  enter,
  gets,
  acquire,
  says,
  summary,
  tenant,
  written,
  type MakeThreadsWorld,
  type ThreadsWorld,
} from './threads-world.ts';

/** Ten entries of one run: 1 to 10. */
async function withTen(world: ThreadsWorld): Promise<void> {
  const lock = await acquire(world, 'a');
  const entries = Array.from({ length: 9 }, (_, i) => answers('a', `answer ${i}`));
  await world.threads.append(lock, 'op', [asks('a', 'hi'), ...entries]);
}

/** What is written in a thread and what is read of it. */
export function threadsLog(makeWorld: MakeThreadsWorld): void {
  test('entries are kept whole, numbered from 1, in the order in which they were written', async () => {
    const world = await makeWorld();
    const lock = await acquire(world, 'a');
    const result = ends('a', 'completed');
    const tool = says('a', {
      role: 'tool',
      toolCallId: 'c1',
      toolName: 'look',
      content: 'línea "1"\n\u0000',
      isError: true,
      sensitivity: 'internal',
      trust: 'web',
    });
    const entries = [asks('a', 'hi'), calls('a', 'c1'), tool, answers('a', 'done'), summary('a', 'short', 2), result];
    expect(await world.threads.append(lock, 'op1', entries.slice(0, 2))).toEqual({
      kind: 'ok',
      seq: 2,
      rolledBack: false,
    });
    expect(await world.threads.append(lock, 'op2', entries.slice(2))).toMatchObject({ seq: 6 });
    const page = await world.threads.read(tenant, 't1', { limit: 100 });
    expect(page).toEqual({ entries: entries.map((entry, i) => ({ seq: i + 1, entry })), more: false });
    expect((await world.threads.get(tenant, 't1')).lastSeq).toBe(6);
  });

  test('the same write again changes nothing and answers like the first', async () => {
    const world = await makeWorld();
    const lock = await acquire(world, 'a');
    const write = () => world.threads.append(lock, 'op', [asks('a', 'hi'), answers('a', 'yes')], { title: 'T' });
    const first = await write();
    expect(await Promise.all([write(), write()])).toEqual([first, first]);
    expect(await written(world)).toEqual(['a:user', 'a:assistant']);
    await world.threads.leave(tenant, 't1', 'a');
    expect(await write()).toEqual(first);
  });

  test('a write of the same turn is known by the worker that comes next, also after others in between', async () => {
    const world = await makeWorld();
    const end = [answers('a', 'yes'), answers('a', 'done')];
    const first = await acquire(world, 'a');
    await world.threads.append(first, 'asked', [asks('a', 'hi')]);
    await world.threads.append(first, 'end', end);
    const second = await acquire(world, 'a');
    await world.threads.append(second, 'asked', [asks('a', 'hi')]);
    expect(await world.threads.append(second, 'end', end)).toEqual({ kind: 'ok', seq: 3, rolledBack: false });
    expect(await written(world)).toEqual(['a:user', 'a:assistant', 'a:assistant']);
    await enter(world, 'b');
    await world.threads.leave(tenant, 't1', 'a');
    await world.threads.append(await acquire(world, 'b'), 'asked', [asks('b', 'hi')]);
    expect(await written(world)).toEqual(['a:user', 'a:assistant', 'a:assistant', 'b:user']);
  });

  test('runtime messages with the role of a user are not the message of the run, and are all written', async () => {
    const world = await makeWorld();
    const again = says('a', { role: 'user', content: 'again, as JSON' }, { byRuntime: true });
    await world.threads.append(await acquire(world, 'a'), 'op1', [asks('a', 'hi'), again, again]);
    await world.threads.append(await acquire(world, 'a'), 'op2', [
      { ...again, key: 'k' },
      { ...again, key: 'k' },
    ]);
    expect(await written(world)).toEqual(['a:user', 'a:user', 'a:user', 'a:user']);
  });

  test('the message of a run is written once, whichever worker writes it and whatever comes with it', async () => {
    const world = await makeWorld();
    await world.threads.append(await acquire(world, 'a'), 'op1', [asks('a', 'hi')]);
    const again = await acquire(world, 'a');
    await world.threads.append(again, 'op2', [asks('a', 'hi'), answers('a', 'yes')]);
    expect(await written(world)).toEqual(['a:user', 'a:assistant']);
    await world.threads.append(again, 'op3', [
      asks('a', 'and', 'steer:1'),
      asks('a', 'and', 'steer:1'),
      asks('a', 'or', 'steer:2'),
    ]);
    expect(await written(world)).toEqual(['a:user', 'a:assistant', 'a:user', 'a:user']);
  });

  test('a handoff is written once, whole, and no model is given it', async () => {
    const world = await makeWorld();
    const handoff: ThreadEntryOf<'handoff'> = {
      v: 1,
      t: 'handoff',
      runId: 'a',
      at,
      key: 'a:handoff:1',
      step: 2,
      fromAgentId: 'support',
      toAgentId: 'sales',
      descriptor: { kind: 'last-n', n: 4 },
      began: 0,
      summary: { text: 'So far.', kept: 2, sensitivity: 'internal' },
      digest: 'd',
    };
    const lock = await acquire(world, 'a');
    await world.threads.append(lock, 'op1', [asks('a', 'hi'), calls('a', 'c1'), gets('a', 'c1'), handoff]);
    await world.threads.append(lock, 'op2', [handoff, answers('a', 'done')]);
    const { entries } = await world.threads.read(tenant, 't1', { limit: 10 });
    expect(entries.map(({ entry }) => entry.t)).toEqual(['message', 'message', 'message', 'handoff', 'message']);
    expect(entries[3]).toEqual({ seq: 4, entry: handoff });
    const { messages } = await world.threads.context(tenant, 't1');
    expect(messages.map(({ seq }) => seq)).toEqual([1, 2, 3, 5]);
  });

  test('a worker that lost the thread writes nothing', async () => {
    const world = await makeWorld();
    const old = await acquire(world, 'a');
    const lock = await acquire(world, 'a');
    expect(await world.threads.append(old, 'late', [answers('a', 'late')], { title: 'late' })).toEqual({
      kind: 'fenced',
    });
    await enter(world, 'b');
    await world.threads.leave(tenant, 't1', 'a');
    expect(await world.threads.append(lock, 'later', [answers('a', 'later')])).toEqual({ kind: 'fenced' });
    const unborn = { tenant, threadId: 'none', runId: 'a', fence: 1 };
    expect(await world.threads.append(unborn, 'op', [])).toEqual({ kind: 'fenced' });
    expect(await world.threads.suspend(unborn)).toBe('fenced');
    expect(await written(world)).toEqual([]);
    expect(await world.threads.get(tenant, 't1')).not.toHaveProperty('title');
    await expect(world.threads.get(tenant, 'none')).rejects.toMatchObject({ code: 'not_found' });
  });

  test('a write changes the fields that it names, takes away those it nulls, and always the time', async () => {
    const world = await makeWorld();
    const lock = await acquire(world, 'a');
    const session = { provider: 'openai', model: 'm', sessionToken: 'tok', checkpointToken: 'chk' };
    world.clock.jump(1_000);
    await world.threads.append(lock, 'op1', [], { session, title: 'Orders', taskId: 'task-1' });
    world.clock.jump(1_000);
    await world.threads.append(lock, 'op2', []);
    expect(await world.threads.get(tenant, 't1')).toMatchObject({
      session,
      title: 'Orders',
      taskId: 'task-1',
      createdAt: new Date(world.clock.now() - 2_000).toISOString(),
      updatedAt: new Date(world.clock.now()).toISOString(),
    });
    expect((await world.threads.acquire({ ...lock, agentId: 'support', epoch: 1 })) as object).toMatchObject({
      manifest: { session },
    });
    await world.threads.update(tenant, 't1', { session: null, taskId: null });
    const info = await world.threads.get(tenant, 't1');
    expect(info.title).toBe('Orders');
    expect(info).not.toHaveProperty('session');
    expect(info).not.toHaveProperty('taskId');
  });

  test('a turn that is rolled back leaves no trace, neither before nor after its next write', async () => {
    const world = await makeWorld();
    const first = await acquire(world, 'a');
    await world.threads.append(first, 'a1', [asks('a', 'one'), answers('a', 'yes'), summary('a', 'S', 1)]);
    await world.threads.leave(tenant, 't1', 'a');
    const lock = await acquire(world, 'b');
    await world.threads.append(lock, 'b1', [asks('b', 'two'), asks('b', 'steer', 'k'), summary('b', 'wrong', 4)]);
    expect(await enter(world, 'c', 'rollback')).toMatchObject({
      kind: 'waiting',
      lockOwner: 'b',
      ahead: 1,
      cancel: true,
    });
    const late = await world.threads.append(lock, 'b2', [answers('b', 'no')], { title: 'wrong' });
    expect(late).toMatchObject({ kind: 'ok', rolledBack: true });
    expect(await written(world)).toEqual(['a:user', 'a:assistant', 'a:summary']);
    expect(await world.threads.acquire({ ...lock, agentId: 'support', epoch: 1 })).toMatchObject({
      kind: 'acquired',
      rolledBack: true,
    });
    expect(await world.threads.leave(tenant, 't1', 'b')).toEqual({ next: 'c' });
    expect(await world.threads.context(tenant, 't1')).toMatchObject({
      summary: { text: 'S' },
      manifest: { agentId: 'support' },
    });
    expect(await world.threads.get(tenant, 't1')).not.toHaveProperty('title');
    const next = await acquire(world, 'c');
    expect(await world.threads.append(next, 'c1', [asks('c', 'three')])).toMatchObject({ rolledBack: false });
    expect(await written(world)).toEqual(['a:user', 'a:assistant', 'a:summary', 'c:user']);
  });

  test('a lock owner that dies after it was rolled back has left no trace either, and may write its message again later', async () => {
    const world = await makeWorld();
    await world.threads.append(await acquire(world, 'a'), 'a1', [asks('a', 'one'), answers('a', 'yes')]);
    await enter(world, 'b', 'rollback');
    expect(await written(world)).toEqual(['a:user', 'a:assistant']);
    expect(await world.threads.leave(tenant, 't1', 'a')).toEqual({ next: 'b' });
    expect(await written(world)).toEqual([]);
    await world.threads.leave(tenant, 't1', 'b');
    await world.threads.append(await acquire(world, 'a'), 'a2', [asks('a', 'one')]);
    expect(await written(world)).toEqual(['a:user']);
  });

  test('how a turn ended by the word of a worker that was lost is taken back when another takes the thread up', async () => {
    const world = await makeWorld();
    const session = { provider: 'openai', model: 'm', sessionToken: 'first' };
    await world.threads.append(await acquire(world, 'a'), 'end', [asks('a', 'one'), ends('a', 'completed')], {
      session,
    });
    await world.threads.leave(tenant, 't1', 'a');
    const lost = await acquire(world, 'b');
    await world.threads.append(lost, 'asked', [asks('b', 'two')]);
    const end = [asks('b', 'and', 'steer'), answers('b', 'yes'), ends('b', 'completed')];
    await world.threads.append(lost, 'end', end, { session: { ...session, sessionToken: 'second' } });
    await world.threads.append(lost, 'summary', [summary('b', 'all of it', 5)]);
    expect(await world.threads.acquire(aRun('b'))).toMatchObject({ manifest: { session } });
    expect(await written(world)).toEqual(['a:user', 'a:result', 'b:user']);
    expect((await world.threads.context(tenant, 't1')).summary).toBeUndefined();
    const lock = await acquire(world, 'b');
    await world.threads.append(lock, 'end', [asks('b', 'and', 'steer'), ends('b', 'cancelled')]);
    expect(await written(world)).toEqual(['a:user', 'a:result', 'b:user', 'b:user', 'b:result']);
    const { entries } = await world.threads.read(tenant, 't1', { limit: 1, order: 'desc' });
    expect(entries[0]?.entry).toMatchObject({ status: 'cancelled' });
    expect(await world.threads.append(lost, 'end', end)).toMatchObject({ seq: entries[0]?.seq });
  });

  test('a worker that was lost between its claim and its thread undoes nothing that the next claim wrote', async () => {
    const world = await makeWorld();
    const acquired = await world.threads.acquire({ ...aRun('a'), epoch: 2 });
    const fence = acquired.kind === 'acquired' ? acquired.fence : 0;
    await world.threads.append({ ...aRun('a'), fence }, 'end', [asks('a', 'one'), ends('a', 'completed')]);
    expect(await world.threads.acquire({ ...aRun('a'), epoch: 1 })).toEqual({ kind: 'stale' });
    expect(await written(world)).toEqual(['a:user', 'a:result']);
    await world.threads.leave(tenant, 't1', 'a');
    expect(await world.threads.acquire({ ...aRun('a'), epoch: 1 })).toEqual({ kind: 'stale' });
    expect(await world.threads.get(tenant, 't1')).not.toHaveProperty('lockOwner');
    expect(await world.threads.acquire({ ...aRun('a'), epoch: 3 })).toMatchObject({ kind: 'acquired' });
  });

  test('the result of a turn stays when its run is redriven and has another one', async () => {
    const world = await makeWorld();
    await world.threads.append(await acquire(world, 'a'), 'end', [asks('a', 'one'), ends('a', 'failed')]);
    await world.threads.leave(tenant, 't1', 'a');
    await world.threads.append(await acquire(world, 'a'), 'end', [ends('a', 'completed')]);
    expect(await written(world)).toEqual(['a:user', 'a:result', 'a:result']);
  });

  test('pages end on both sides where they are asked to, in either order', async () => {
    const world = await makeWorld();
    await withTen(world);
    const read = async (range: Parameters<typeof world.threads.read>[2]) => {
      const { entries, more } = await world.threads.read(tenant, 't1', range);
      return [entries.map(({ seq }) => seq), more];
    };
    expect(await read({ limit: 3 })).toEqual([[1, 2, 3], true]);
    expect(await read({ limit: 3, after: 7 })).toEqual([[8, 9, 10], false]);
    expect(await read({ limit: 3, after: 2, before: 5 })).toEqual([[3, 4], false]);
    expect(await read({ limit: 3, order: 'desc' })).toEqual([[10, 9, 8], true]);
    expect(await read({ limit: 3, order: 'desc', before: 4 })).toEqual([[3, 2, 1], false]);
    expect(await read({ limit: 3, order: 'desc', after: 7, before: 10 })).toEqual([[9, 8], false]);
    expect(await read({ limit: 3, after: 10 })).toEqual([[], false]);
  });

  test('a long log is read whole', async () => {
    const world = await makeWorld();
    const lock = await acquire(world, 'a');
    const entries = Array.from({ length: 1_001 }, (_, i) => answers('a', `${i}`));
    await world.threads.append(lock, 'op', entries);
    expect((await world.threads.context(tenant, 't1')).messages).toHaveLength(1_001);
    const { entries: read, more } = await world.threads.read(tenant, 't1', { limit: 1_000, order: 'desc' });
    expect([read.length, read[0]?.seq, read.at(-1)?.seq, more]).toEqual([1_000, 1_001, 2, true]);
  });

  test('the lock owner is given the thread as it was when its turn began', async () => {
    const world = await makeWorld();
    const first = await acquire(world, 'a');
    await world.threads.append(first, 'one', [asks('a', 'hi'), answers('a', 'hello')]);
    await world.threads.append(first, 'two', [summary('a', 'they greeted', 1)]);
    await world.threads.leave(tenant, 't1', 'a');
    const second = await acquire(world, 'b');
    const before = await world.threads.context(tenant, 't1', 'b');
    await world.threads.append(second, 'three', [asks('b', 'and now?'), answers('b', 'nothing')]);
    await world.threads.append(second, 'four', [summary('b', 'all of it', 5)]);
    expect(await world.threads.context(tenant, 't1', 'b')).toMatchObject({
      summary: before.summary,
      messages: before.messages,
      lastNumber: 3,
    });
    expect((await world.threads.context(tenant, 't1')).summary?.text).toBe('all of it');
  });

  test('a model is given the messages, with the numbers of the entries', async () => {
    const world = await makeWorld();
    const lock = await acquire(world, 'a');
    const entries = [asks('a', 'hi'), calls('a', 'c1'), gets('a', 'c1'), answers('a', 'done')];
    const result = ends('a', 'completed');
    await world.threads.append(lock, 'op', [...entries, result]);
    const { messages, ...rest } = await world.threads.context(tenant, 't1');
    expect(messages).toEqual(entries.map(({ message, runId }, i) => ({ seq: i + 1, runId, message })));
    expect(Object.keys(rest)).toEqual(['manifest', 'lastNumber']);
    expect(rest.lastNumber).toBe(5);
  });

  test('of a thread with summaries a model is given the last one and what came after its end', async () => {
    const world = await makeWorld();
    await withTen(world);
    const lock = await acquire(world, 'a');
    await world.threads.append(lock, 'op1', [summary('a', 'first', 3), answers('a', 'more')]);
    await world.threads.append(lock, 'op2', [summary('a', 'second', 8), answers('a', 'most')]);
    const { summary: last, messages } = await world.threads.context(tenant, 't1');
    expect(last).toEqual({ seq: 13, text: 'second', upTo: 8 });
    expect(messages.map(({ seq }) => seq)).toEqual([9, 10, 12, 14]);
  });

  test('a call without a result gets one that says so, and a result without a call is left out', async () => {
    const world = await makeWorld();
    await world.threads.append(await acquire(world, 'a'), 'op', [
      asks('a', 'hi'),
      gets('a', 'old'),
      calls('a', 'c1', 'c2'),
      gets('a', 'c2'),
    ]);
    await world.threads.leave(tenant, 't1', 'a');
    await world.threads.append(await acquire(world, 'b'), 'op2', [asks('b', 'again'), gets('b', 'c1')]);
    const { messages } = await world.threads.context(tenant, 't1');
    expect(messages.map(({ seq, message }) => [seq, message.role])).toEqual([
      [1, 'user'],
      [3, 'assistant'],
      [4, 'tool'],
      [3, 'tool'],
      [5, 'user'],
    ]);
    expect(messages[3]?.message).toMatchObject({ toolCallId: 'c1', isError: true });
    expect(await written(world)).toHaveLength(6);
  });
}
