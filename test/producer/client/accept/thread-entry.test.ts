import { describe, expect, inject, onTestFinished, test } from 'vitest';
import { systemClock } from '../../../../src/shared/base/clock.ts';
import { runIdForExecution } from '../../../../src/shared/base/ids.ts';
import { newRun } from '../../../../src/shared/state/run/create-runs.ts';
import { runRequest, type RunRequestInput } from '../../../../src/shared/contract/run.ts';
import { followUpId } from '../../../../src/shared/state/run/control/inbox.ts';
import { enterThread } from '../../../../src/shared/state/thread/lock.ts';
import { ClientCore } from '../../../../src/producer/client/client-core.ts';
import { forgetEnded } from '../../../../src/producer/client/accept/thread-entry.ts';
import { RunWriter } from '../../support/run-writer.ts';
import { clientWorld, codeOf, request, type ClientWorld } from '../../cli/options/client.ts';

const inThread: RunRequestInput = { ...request, thread: 'talk' };

/** Runs that a worker would be given, without those that it would skip because they have ended. */
async function queued({ mill, redis, bull }: ClientWorld): Promise<string[]> {
  const jobs = await redis.lrange(bull('runs', 'wait'), 0, -1);
  const runs = await Promise.all(jobs.map((job) => mill.get(job.split('-')[0] ?? '')));
  return runs.filter(({ status }) => status === 'queued').map(({ runId }) => runId);
}

async function queueOf({ mill }: ClientWorld) {
  const { lockOwner, waiting } = await mill.threads.get('talk');
  return { lockOwner, waiting };
}

test.each(['interrupt', 'rollback'] as const)(
  '%s ends a run that no worker has claimed yet, and is queued itself',
  async (onBusy) => {
    const world = await clientWorld();
    const first = await world.mill.enqueue(inThread);
    const last = await world.mill.enqueue(inThread);
    const { runId } = await world.mill.enqueue({ ...inThread, onBusy });
    expect((await first.get()).status).toBe('cancelled');
    expect(await queueOf(world)).toEqual({ lockOwner: runId, waiting: 1 });
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
  expect(await queueOf(world)).toEqual({ lockOwner: thirdId, waiting: 1 });
  expect(await queued(world)).toEqual([thirdId]);
  expect((await world.mill.get(String(secondId))).status).toBe('queued');
});

test.each(['enqueue', 'enqueueMany'] as const)(
  'a run that was skipped before it was created has its position once %s has answered',
  async (method) => {
    const world = await clientWorld();
    const { mill, redis, keys } = world;
    const first = await mill.enqueue(inThread);
    const runId = runIdForExecution('default', 'late');
    // Its request got this far, and was sent again.
    const space = { redis, keys, cluster: false, clock: systemClock };
    const enterLate = () =>
      enterThread(space, { tenant: 'default', threadId: 'talk', runId, agentId: 'support' }, 'queue');
    await enterLate();
    await mill.cancel(first.runId);
    const second = await mill.enqueue(inThread);
    const late = { ...inThread, executionId: 'late' };
    await (method === 'enqueue' ? mill.enqueue(late) : mill.enqueueMany([late]));
    await mill.enqueue(inThread);
    expect(await enterLate()).toMatchObject({ kind: 'waiting', ahead: 1 });
    expect(await queued(world)).toEqual([second.runId]);
    expect(await queueOf(world)).toEqual({ lockOwner: second.runId, waiting: 2 });
    await mill.cancel(second.runId);
    expect(await queued(world)).toEqual([runId]);
    expect(await queueOf(world)).toEqual({ lockOwner: runId, waiting: 1 });
  },
);

test('the repeat of a request whose run has ended does not enter the wait queue', async () => {
  const world = await clientWorld();
  const once = { ...inThread, executionId: 'once' };
  const { runId } = await world.mill.enqueue(once);
  const next = await world.mill.enqueue(inThread);
  await world.mill.cancel(runId);
  await world.mill.enqueue(once);
  await world.mill.enqueueMany([once]);
  expect(await queueOf(world)).toEqual({ lockOwner: next.runId, waiting: 0 });
});

test('the repeat of a request whose run has ended does not cost it its position once it is redriven', async () => {
  const { mill, prefix, redis, keys } = await clientWorld();
  const { runId } = await mill.enqueue({ ...inThread, executionId: 'once' });
  await mill.enqueue(inThread);
  const writer = new RunWriter(redis, keys, runId);
  await writer.start();
  await writer.end('failed');
  await mill.redrive({ runId });
  const core = new ClientCore({ redis: inject('redisUrl'), prefix });
  onTestFinished(() => core.close());
  // What a producer does that has seen its end, and has stalled since.
  const again = newRun(runRequest.parse({ ...inThread, executionId: 'once' }), { tenant: 'default' }, 'n');
  await core.reach((connection) => forgetEnded(again, { core, redis: connection }));
  expect(again.runId).toBe(runId);
  expect(await mill.threads.get('talk')).toMatchObject({ lockOwner: runId, waiting: 1 });
});

describe('a request whose execution id belongs to another one', () => {
  const once: RunRequestInput = { ...inThread, executionId: 'once' };

  test.each(['enqueue', 'enqueueMany'] as const)(
    'leaves no trace in the thread that it names, by %s',
    async (method) => {
      const world = await clientWorld();
      const { mill, redis, keys } = world;
      await mill.enqueue(once);
      const innocent = await mill.enqueue({ ...request, thread: 'other' });
      const thread = async () => ({
        manifest: await redis.hgetall(keys.thread('default', 'other', 'manifest')),
        line: await redis.zrange(keys.thread('default', 'other', 'waiters'), 0, '-1'),
      });
      const before = await thread();
      const refused = { ...once, thread: 'other', onBusy: 'interrupt' } as const;
      const code =
        method === 'enqueue'
          ? await codeOf(mill.enqueue(refused))
          : (await mill.enqueueMany([refused])).map((answer) => ('error' in answer ? answer.error.code : ''))[0];
      expect(code).toBe('idempotency_conflict');
      expect(await thread()).toEqual(before);
      expect((await innocent.get()).status).toBe('queued');
      expect(await codeOf(mill.enqueue({ ...once, thread: 'no-one' }))).toBe('idempotency_conflict');
      expect(await codeOf(mill.threads.get('no-one'))).toBe('not_found');
    },
  );

  test('is refused while the first has a position in its thread and no record yet, with and without a thread', async () => {
    const world = await clientWorld();
    const { mill, redis, keys } = world;
    // The first request got as far as this and its producer died.
    const first = newRun(runRequest.parse(once), { tenant: 'default' }, 'n');
    await redis.hset(keys.claim(first.runId), 'bodyHash', first.bodyHash);
    for (const other of [
      { ...once, thread: 'other' },
      { ...once, thread: undefined },
    ])
      expect(await codeOf(mill.enqueue(other))).toBe('idempotency_conflict');
    expect(await codeOf(mill.threads.get('other'))).toBe('not_found');
    expect((await mill.enqueue(once)).runId).toBe(first.runId);
    expect(await redis.exists(keys.claim(first.runId))).toBe(0);
  });

  test('is refused for minutes after a producer has died with the first, and then no longer', async () => {
    const { mill, redis, keys } = await clientWorld();
    // Its position in the thread cannot be removed, nor is it refused.
    await redis.set(keys.thread('default', 'talk', 'manifest'), 'unreadable');
    await expect(mill.enqueue(once)).rejects.toThrow('Redis');
    const claim = keys.claim(runIdForExecution('default', 'once'));
    expect(await codeOf(mill.enqueue({ ...once, thread: 'other' }))).toBe('idempotency_conflict');
    expect(await redis.pttl(claim)).toBeGreaterThan(0);
  });

  test('has it again once that one was refused itself', async () => {
    const world = await clientWorld();
    await world.mill.enqueue(inThread);
    expect(await codeOf(world.mill.enqueue({ ...once, onBusy: 'reject' }))).toBe('concurrent_run');
    expect((await world.mill.enqueue({ ...once, input: 'Something else.' })).attached).toBe(false);
  });
});

describe('a message that steers the running run', () => {
  const message: RunRequestInput = { ...inThread, input: 'And quickly.', onBusy: 'steer', executionId: 'steer' };

  async function working(world: ClientWorld) {
    const run = await world.mill.enqueue(inThread);
    const writer = new RunWriter(world.redis, world.keys, run.runId);
    await writer.start();
    return { run, writer };
  }

  test('arrives once however often it is sent, also after the end of that run', async () => {
    const world = await clientWorld();
    const { mill, redis, keys } = world;
    const { run, writer } = await working(world);
    for (const status of ['running', 'running', 'completed']) {
      if (status === 'completed') await writer.end();
      expect(await mill.enqueue(message)).toMatchObject({ runId: run.runId, status, attached: true });
    }
    expect(await redis.llen(keys.inbox(run.runId))).toBe(1);
    expect(await codeOf(mill.enqueue({ ...message, input: 'And slowly.' }))).toBe('idempotency_conflict');
  });

  test('is not sent again, nor answered by a run of its own, once the run that read it is past its retention', async () => {
    const world = await clientWorld();
    const { mill, redis, keys } = world;
    const { run, writer } = await working(world);
    await mill.enqueue(message);
    await writer.end();
    await redis.del(keys.run(run.runId));
    const other = await mill.enqueue({ ...request, thread: 'talk' });
    await new RunWriter(redis, keys, other.runId).start();
    for (let times = 0; times < 2; times++) expect(await codeOf(mill.enqueue(message))).toBe('run_not_found');
    expect(await redis.exists(keys.inbox(other.runId), keys.run(runIdForExecution('default', 'steer')))).toBe(0);
    const ttl = await redis.ttl(keys.claim(runIdForExecution('default', 'steer')));
    expect(ttl, 'as long as a run with an execution id').toBeGreaterThan(86_400 - 60);
  });

  test('is answered by the run after the running one, when that one ended before it read the message', async () => {
    const world = await clientWorld();
    const { mill, redis, keys } = world;
    const { run, writer } = await working(world);
    await mill.enqueue(message);
    await writer.end();
    const runId = followUpId(run.runId, runIdForExecution('default', 'steer'));
    await redis.hset(keys.run(runId), 'status', 'queued');
    expect(await mill.enqueue(message)).toMatchObject({ runId, status: 'queued', attached: true });
  });

  test('is noted before it is sent, so that it has one run although the producer dies in between', async () => {
    const world = await clientWorld();
    const { mill, redis, keys } = world;
    const { run } = await working(world);
    await redis.set(keys.inbox(run.runId), 'no list');
    await expect(mill.enqueue(message)).rejects.toThrow('Redis');
    const claim = keys.claim(runIdForExecution('default', 'steer'));
    expect(await redis.hgetall(claim)).toMatchObject({ listener: run.runId, delivered: '0' });
  });

  test('was a run of its own when none was running: its repeat is that run, also while it runs', async () => {
    const world = await clientWorld();
    const { mill, redis, keys } = world;
    const { runId } = await mill.enqueue(message);
    await new RunWriter(redis, keys, runId).start();
    expect(await mill.enqueue(message)).toMatchObject({ runId, status: 'running', attached: true });
    expect(await redis.exists(keys.inbox(runId))).toBe(0);
  });

  test('goes to the run that it was meant for when its producer died before it was sent, or to the next', async () => {
    const world = await clientWorld();
    const { mill, redis, keys } = world;
    const { run, writer } = await working(world);
    const asked = newRun(runRequest.parse(message), { tenant: 'default' }, 'n');
    const meant = { bodyHash: asked.bodyHash, listener: run.runId, delivered: 0 };
    await redis.hset(keys.claim(asked.runId), meant);
    expect(await mill.enqueue(message)).toMatchObject({ runId: run.runId, attached: true });
    await redis.del(keys.inbox(run.runId));
    await redis.hdel(keys.run(run.runId), `inbox:${asked.runId}`);
    await redis.hset(keys.claim(asked.runId), meant);
    await writer.end();
    expect(await mill.enqueue(message)).toMatchObject({ runId: asked.runId, attached: false });
    expect(await mill.enqueue(message)).toMatchObject({ runId: asked.runId, attached: true });
  });
});
