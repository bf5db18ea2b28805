import { expect, test } from 'vitest';
import { systemClock } from '../../src/shared/clock.ts';
import { runIdForExecution } from '../../src/shared/ids.ts';
import type { RunRequestInput } from '../../src/shared/run.ts';
import { enterThread } from '../../src/shared/thread-line.ts';
import { clientWorld, request, type ClientWorld } from './support/client.ts';

const inThread: RunRequestInput = { ...request, thread: 'talk' };

/** Runs that a worker would be given, without those that it would skip because they have ended. */
async function queued({ mill, redis, bull }: ClientWorld): Promise<string[]> {
  const jobs = await redis.lrange(bull('runs', 'wait'), 0, -1);
  const runs = await Promise.all(jobs.map((job) => mill.get(job.split('-')[0] ?? '')));
  return runs.filter(({ status }) => status === 'queued').map(({ runId }) => runId);
}

async function standing({ mill }: ClientWorld) {
  const { holder, waiting } = await mill.threads.get('talk');
  return { holder, waiting };
}

test.each(['interrupt', 'rollback'] as const)(
  '%s ends a run that nobody has taken yet, and is queued itself',
  async (onBusy) => {
    const world = await clientWorld();
    const first = await world.mill.enqueue(inThread);
    const last = await world.mill.enqueue(inThread);
    const { runId } = await world.mill.enqueue({ ...inThread, onBusy });
    expect((await first.get()).status).toBe('cancelled');
    expect(await standing(world)).toEqual({ holder: runId, waiting: 1 });
    expect(await queued(world)).toEqual([runId]);
    await world.mill.cancel(runId);
    expect(await queued(world)).toEqual([last.runId]);
  },
);

test('the same among runs that are accepted together', async () => {
  const world = await clientWorld();
  const [first] = await world.mill.enqueueMany([inThread]);
  const [second, third] = await world.mill.enqueueMany([inThread, { ...inThread, onBusy: 'interrupt' }]);
  expect(first).toMatchObject({ status: 'queued' });
  const [secondId, thirdId] = [second, third].map((answer) => answer && 'runId' in answer && answer.runId);
  expect(await standing(world)).toEqual({ holder: thirdId, waiting: 1 });
  expect(await queued(world)).toEqual([thirdId]);
  expect((await world.mill.get(String(secondId))).status).toBe('queued');
});

test.each(['enqueue', 'enqueueMany'] as const)(
  'a run that was passed over before it was there has its place once %s has answered',
  async (method) => {
    const world = await clientWorld();
    const { mill, redis, keys } = world;
    const first = await mill.enqueue(inThread);
    const runId = runIdForExecution('default', 'late');
    // Its request got this far, and was sent again.
    const place = { redis, keys, cluster: false, clock: systemClock };
    const enterLate = () =>
      enterThread(place, { tenant: 'default', threadId: 'talk', runId, agentId: 'support' }, 'queue');
    await enterLate();
    await mill.cancel(first.runId);
    const second = await mill.enqueue(inThread);
    const late = { ...inThread, executionId: 'late' };
    await (method === 'enqueue' ? mill.enqueue(late) : mill.enqueueMany([late]));
    await mill.enqueue(inThread);
    expect(await enterLate()).toMatchObject({ kind: 'waiting', ahead: 1 });
    expect(await queued(world)).toEqual([second.runId]);
    expect(await standing(world)).toEqual({ holder: second.runId, waiting: 2 });
    await mill.cancel(second.runId);
    expect(await queued(world)).toEqual([runId]);
    expect(await standing(world)).toEqual({ holder: runId, waiting: 1 });
  },
);

test('the repeat of a request whose run has ended takes no place', async () => {
  const world = await clientWorld();
  const once = { ...inThread, executionId: 'once' };
  const { runId } = await world.mill.enqueue(once);
  const next = await world.mill.enqueue(inThread);
  await world.mill.cancel(runId);
  await world.mill.enqueue(once);
  await world.mill.enqueueMany([once]);
  expect(await standing(world)).toEqual({ holder: next.runId, waiting: 0 });
});
