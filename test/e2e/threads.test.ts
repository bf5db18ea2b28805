import { describe, expect, test } from 'vitest';
import { eventsOf, observe } from '../support/check-run.ts';
import { planInput, type PlannedStep } from '../support/plan.ts';
import { redisThreads } from '../../src/shared/state/thread/threads.ts';
import { keysFor } from '../../src/shared/state/keys.ts';
import { systemClock } from '../../src/shared/base/clock.ts';
import { testRedis, until } from '../support/redis.ts';
import { makeWorld, shareWorld, type World } from '../support/world.ts';

const shared = shareWorld({ producer: true });

/** What the log of a thread holds, in short. */
async function said(world: World, threadId: string): Promise<string[]> {
  const redis = await testRedis('work', world.fleet.redisUrl);
  const place = { redis, keys: keysFor(world.fleet.prefix), cluster: false, clock: systemClock };
  const { entries } = await redisThreads(place, async () => {}).read('default', threadId, { limit: 1_000 });
  return entries.map(({ entry }) => {
    if (entry.t !== 'message') return entry.t;
    const { message } = entry;
    if (message.role !== 'assistant') return `${message.role}: ${message.content}`;
    return `assistant: ${message.parts.map((part) => (part.type === 'text' ? part.text : `[${part.name}]`)).join('')}`;
  });
}

describe('messages on one thread', () => {
  test('ten from three producers over three workers, one killed twice: in order, one at a time, each once', async () => {
    const world = await makeWorld({ workers: 3 });
    const mills = [world.fleet.client(), world.fleet.client(), world.fleet.client()];
    const hold = (n: number) => ({ gate: `g${n}`, afterPieces: 1 });
    const runs = [];
    for (let n = 0; n < 10; n++) {
      const slow = n === 2 || n === 6;
      const input = planInput({ text: `answer ${n}`, ...(slow && { hold: hold(n) }) });
      runs.push(await (mills[n % 3] as (typeof mills)[0]).enqueue({ agent: 'plain', input, thread: 'talk' }));
    }
    for (const n of [2, 6]) {
      const run = runs[n] as (typeof runs)[0];
      await until('its answer has begun', () =>
        world.provider.callsOf(run.runId).some(({ ended }) => ended === 'open'),
      );
      const lockOwner = await world.workerOf(run);
      lockOwner.signal('SIGKILL');
      await lockOwner.exited;
      await world.addWorker();
      world.provider.gates.open(`g${n}`);
    }
    for (const run of runs) expect((await run.result()).status).toBe('completed');
    const log = (await said(world, 'talk')).filter((line) => line !== 'result');
    const expected = runs.flatMap((_, n) => [
      `user: ${planInput({ text: `answer ${n}`, ...((n === 2 || n === 6) && { hold: hold(n) }) })}`,
      `assistant: answer ${n}`,
    ]);
    expect(log).toEqual(expected);
    const times = await Promise.all(
      runs.map(async ({ runId }) => {
        const { startedAt = '', endedAt = '' } = await world.mill.get(runId);
        return { startedAt, endedAt };
      }),
    );
    const overlaps = times.filter(({ startedAt }, n) => startedAt < (times[n - 1]?.endedAt ?? ''));
    expect(overlaps, 'each began after the one before').toEqual([]);
    const last = world.provider.callsOf(runs[9]?.runId ?? '').at(-1);
    expect(last?.messages.filter(({ role }) => role === 'assistant').map(({ content }) => content)).toEqual(
      Array.from({ length: 9 }, (_, n) => `answer ${n}`),
    );
  });

  test('where one run at a time is worked on, a busy thread never blocks another', async () => {
    const world = await makeWorld({ env: { WORKER_CONCURRENCY: '1' } });
    const gated = [{ calls: [{ name: 'charge', args: { id: 'c' } }] }, { text: 'paid' }];
    const busy = await world.submit('gated', gated, { thread: 'a' });
    await until('it waits for people', async () => (await busy.get()).status === 'suspended');
    const behind = await world.submit('gated', [{ text: 'second' }], { thread: 'a' });
    const other = await world.submit('gated', [{ text: 'free' }], { thread: 'b' });
    expect((await other.result()).text).toBe('free');
    expect(await behind.get()).toMatchObject({ status: 'queued', steps: 0 });
    await busy.approve();
    expect((await behind.result()).text).toBe('second');
    expect((await busy.get()).status).toBe('completed');
    expect((await said(world, 'a')).filter((line) => !line.startsWith('user'))).toEqual([
      'assistant: [charge]',
      expect.stringMatching(/^tool: /),
      'assistant: paid',
      'result',
      'assistant: second',
      'result',
    ]);
    const seen = world.provider.callsOf(behind.runId)[0]?.messages.map(({ role }) => role);
    expect(seen?.filter((role) => role !== 'system')).toEqual(['user', 'assistant', 'tool', 'assistant', 'user']);
  });

  test('a thread belongs to one agent', async () => {
    const { world } = shared;
    await (await world.submit('plain', [{ text: 'hi' }], { thread: 'mine' })).result();
    const other = world.submit('gated', [{ text: 'hi' }], { thread: 'mine' });
    await expect(other).rejects.toMatchObject({ code: 'validation', message: expect.stringContaining('agent plain') });
  });

  test('reject, where a run is running or waits for people', async () => {
    const { world } = shared;
    const hold = { gate: 'reject', afterPieces: 0 };
    const first = await world.submit('gated', [{ text: 'one', hold }], { thread: 'r' });
    const again = (): Promise<unknown> => world.submit('gated', [{ text: 'two' }], { thread: 'r', onBusy: 'reject' });
    await expect(again()).rejects.toMatchObject({ code: 'concurrent_run' });
    world.provider.gates.open('reject');
    await first.result();
    const gated = [{ calls: [{ name: 'charge', args: { id: 'r' } }] }, { text: 'paid' }];
    const waiting = await world.submit('gated', gated, { thread: 'r' });
    await until('it waits for people', async () => (await waiting.get()).status === 'suspended');
    await expect(again()).rejects.toMatchObject({ code: 'thread_suspended' });
    await waiting.cancel();
    expect((await waiting.result()).status).toBe('cancelled');
    expect((await said(world, 'r')).slice(-2)).toEqual(['assistant: (stopped by user)', 'result']);
  });

  test.each(['interrupt', 'rollback'] as const)('%s: the newer message goes first', async (onBusy) => {
    const { world } = shared;
    const hold = { gate: `never-${onBusy}`, afterPieces: 1 };
    const first = await world.submit('plain', [{ text: 'one two', hold }], { thread: onBusy });
    await until('it answers', () => world.provider.callsOf(first.runId).some(({ ended }) => ended === 'open'));
    const second = await world.submit('plain', [{ text: 'second' }], { thread: onBusy });
    const third = await world.submit('plain', [{ text: 'third' }], { thread: onBusy, onBusy });
    expect((await first.result()).status).toBe('cancelled');
    expect((await second.result()).text).toBe('second');
    const log = (await said(world, onBusy)).filter((line) => line.startsWith('assistant'));
    const kept = onBusy === 'interrupt' ? ['assistant: (stopped by user)'] : [];
    expect(log).toEqual([...kept, 'assistant: third', 'assistant: second']);
    expect((await said(world, onBusy)).filter((line) => line.startsWith('user'))).toHaveLength(2 + kept.length);
    expect((await third.get()).status).toBe('completed');
  });

  test('a run that fails leaves one line that says so, and the next one goes on', async () => {
    const { world } = shared;
    const failing: PlannedStep = { text: 'x', faults: [{ kind: 'status', status: 401 }] };
    const first = await world.submit('plain', [failing], { thread: 'f' });
    const second = await world.submit('plain', [{ text: 'fine' }], { thread: 'f' });
    expect((await second.result()).status).toBe('completed');
    const observed = await observe(world.mill, first.runId, () => []);
    expect(eventsOf(observed, 'agent.error')).toHaveLength(1);
    expect((await said(world, 'f')).filter((line) => !line.startsWith('user'))).toEqual([
      expect.stringMatching(/^assistant: \(error: provider openai answered 401/),
      'result',
      'assistant: fine',
      'result',
    ]);
  });

  test('one that waits for its thread can be cancelled, and the others keep their order', async () => {
    const { world } = shared;
    const hold = { gate: 'cw', afterPieces: 0 };
    const [first, second, third] = await Promise.all([
      world.submit('plain', [{ text: 'one', hold }], { thread: 'cw' }),
      world.submit('plain', [{ text: 'two', hold }], { thread: 'cw' }),
      world.submit('plain', [{ text: 'three', hold }], { thread: 'cw' }),
    ]);
    await world.provider.gates.reached('cw');
    const views = await Promise.all([first, second, third].map((run) => run.get()));
    const waiting = views.filter(({ status }) => status === 'queued');
    expect(waiting).toHaveLength(2);
    await world.mill.cancel(waiting[0]?.runId ?? '');
    world.provider.gates.open('cw');
    const statuses = await Promise.all([first, second, third].map(async (run) => (await run.result()).status));
    expect(statuses.toSorted()).toEqual(['cancelled', 'completed', 'completed']);
  });

  test('steer: a message to a running run reaches its next step, also across a crash', async () => {
    const world = await makeWorld();
    const first = await world.submit('plain', [{ text: 'one two', hold: { gate: 'st', afterPieces: 1 } }], {
      thread: 's',
    });
    await until('it answers', () => world.provider.callsOf(first.runId).some(({ ended }) => ended === 'open'));
    const again = planInput({ text: 'changed' });
    const steered = await world.mill.enqueue({ agent: 'plain', input: again, thread: 's', onBusy: 'steer' });
    expect(steered.runId).toBe(first.runId);
    world.worker.signal('SIGKILL');
    await world.worker.exited;
    await world.addWorker();
    world.provider.gates.open('st');
    expect((await first.result()).text).toBe('changed');
    const observed = await observe(world.mill, first.runId, () => []);
    expect(eventsOf(observed, 'agent.steered')).toHaveLength(1);
    expect((await said(world, 's')).map((line) => line.slice(0, 14))).toEqual([
      'user: [{"text"',
      'user: [{"text"',
      'assistant: cha',
      'result',
    ]);
  });

  test('steer: without a running run it is a message like any other, and what comes too late is the next one', async () => {
    const { world } = shared;
    const input = planInput({ text: 'fresh' });
    const first = await world.mill.enqueue({ agent: 'plain', input, thread: 'late', onBusy: 'steer' });
    expect((await first.result()).text).toBe('fresh');
    const hold = { gate: 'late', afterPieces: 0 };
    const second = await world.submit('plain', [{ text: 'x y', hold }], {
      thread: 'late',
    });
    await world.provider.gates.reached('late');
    await world.mill.enqueue({
      agent: 'plain',
      input: planInput({ text: 'after all' }),
      thread: 'late',
      onBusy: 'steer',
    });
    await second.cancel();
    expect((await second.result()).status).toBe('cancelled');
    await until('the next message is answered', async () =>
      (await said(world, 'late')).includes('assistant: after all'),
    );
  });

  test('a failed run that is redriven adds only what is new', async () => {
    const { world } = shared;
    const failing: PlannedStep = { text: 'in the end', faults: [{ kind: 'status', status: 401 }] };
    const look = { calls: [{ name: 'look', args: { id: 'd' } }] };
    const run = await world.submit('gated', [look, failing], { thread: 'd' });
    expect((await run.result()).status).toBe('failed');
    await world.mill.redrive({ runId: run.runId });
    await until('it has its answer', async () => (await run.get()).status === 'completed');
    const lines = (await said(world, 'd')).map((line) => line.slice(0, 20));
    expect(lines.map((line) => line.replace(/:.*/, ''))).toEqual([
      'user',
      'assistant',
      'tool',
      'assistant',
      'result',
      'assistant',
      'result',
    ]);
    expect(lines.at(-2)).toBe('assistant: in the en');
  });

  test('an answer without words is kept, and not sent to a model again', async () => {
    const { world } = shared;
    const first = await world.submit('plain', [{ text: '' }], { thread: 'e' });
    expect(await first.result()).toMatchObject({ status: 'completed', result: { emptyResponse: true } });
    const second = await world.submit('plain', [{ text: 'more' }], { thread: 'e' });
    expect((await second.result()).text).toBe('more');
    expect((await said(world, 'e')).filter((line) => !line.startsWith('user'))).toEqual([
      'assistant: ',
      'result',
      'assistant: more',
      'result',
    ]);
    const roles = world.provider.callsOf(second.runId)[0]?.messages.map(({ role }) => role);
    expect(roles?.filter((role) => role !== 'system')).toEqual(['user', 'user']);
  });
});
