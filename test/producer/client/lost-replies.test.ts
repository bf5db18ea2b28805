import { inject, onTestFinished, expect, test } from 'vitest';
import { ClientCore } from '../../../src/producer/client/client-core.ts';
import { MillraceClient } from '../../../src/producer/client/facade.ts';
import { redisOperations } from '../../../src/producer/client/redis-operations.ts';
import { jobIdFor } from '../../../src/shared/base/ids.ts';
import { clientWorld, request } from '../cli/options/client.ts';
import { RunWriter } from '../support/run-writer.ts';
import { suspendedRun } from '../support/suspended.ts';

/** A client whose every script runs twice, as when the first reply is lost on the way and the connection asks again. */
async function doubledWorld() {
  const world = await clientWorld();
  const core = new ClientCore({ redis: inject('redisUrl'), prefix: world.prefix });
  onTestFinished(() => core.close());
  await core.reach(async (redis) => {
    for (const name of ['eval', 'evalsha'] as const) {
      const once = redis[name].bind(redis) as (...args: unknown[]) => Promise<unknown>;
      const twice = async (...args: unknown[]) => {
        await once(...args);
        return await once(...args);
      };
      Object.assign(redis, { [name]: twice });
    }
  });
  const tenant = { tenant: 'default', rights: 'operator', requestId: undefined, core } as const;
  return { ...world, mill: new MillraceClient(redisOperations(tenant, async () => {})) };
}

test('a creation that is sent twice makes one new run, also in bulk', async () => {
  const { mill, redis, keys } = await doubledWorld();
  const run = await mill.enqueue({ ...request, executionId: 'e' });
  expect(run.attached).toBe(false);
  expect(await redis.xlen(keys.events(run.runId))).toBe(2);
  const answers = await mill.enqueueMany([{ ...request, executionId: 'f' }, request]);
  expect(answers).toMatchObject([{ attached: false }, { attached: false }]);
});

test('a cancel that is sent twice ends the run once and says that it did', async () => {
  const { mill, redis, keys } = await doubledWorld();
  const run = await mill.enqueue(request);
  expect(await run.cancel()).toMatchObject({ status: 'cancelled', lastSequence: 2 });
  expect(await redis.xlen(keys.events(run.runId))).toBe(2);
});

test('a redrive that is sent twice queues the run once', async () => {
  const { mill, redis, keys, bull } = await doubledWorld();
  const run = await mill.enqueue(request);
  await new RunWriter(redis, keys, run.runId).end('failed');
  expect(await mill.redrive({ runId: run.runId })).toEqual({
    redriven: [run.runId],
    late: [],
    skipped: 0,
    more: false,
  });
  expect(await redis.hget(keys.run(run.runId), 'segment')).toBe('1');
  expect(await redis.lrange(bull('runs', 'wait'), 0, -1)).toEqual([jobIdFor(run.runId, 1)]);
});

test('a decision that is sent twice resumes the run once and says that it did', async () => {
  const world = await doubledWorld();
  const { redis, keys, bull } = world;
  const run = await suspendedRun(world, [{ kind: 'budget', id: 'batch:b1' }]);
  expect((await run.approve()).run).toMatchObject({ status: 'queued', lastSequence: 3 });
  expect(await redis.llen(keys.journal(run.runId))).toBe(3);
  expect(await redis.lrange(bull('runs', 'wait'), 0, -1)).toContain(jobIdFor(run.runId, 1));
});

test('a decision about a call that is sent twice resumes the run once and is there once', async () => {
  const world = await doubledWorld();
  const { redis, keys, bull } = world;
  const call = { kind: 'approval', toolName: 'transfer' } as const;
  const run = await suspendedRun(world, [
    { ...call, id: 'c1' },
    { ...call, id: 'c2', approvers: 2 },
  ]);
  expect((await run.approve({ calls: 'c2', by: 'kim' })).run.decisions?.[0]?.votes).toHaveLength(1);
  expect((await run.approve({ calls: 'c1', by: 'kim' })).run).toMatchObject({ status: 'queued', lastSequence: 3 });
  expect(await redis.llen(keys.journal(run.runId))).toBe(3);
  expect(await redis.lrange(bull('runs', 'wait'), 0, -1)).toContain(jobIdFor(run.runId, 1));
  expect((await run.approve({ calls: 'c2', by: 'ada' })).run).toMatchObject({ status: 'queued', pending: [] });
  expect(await redis.llen(keys.decided(run.runId))).toBe(1);
});

test('a cancel that leaves a run waiting says so once when it is sent twice', async () => {
  const world = await doubledWorld();
  const run = await suspendedRun(world, [{ kind: 'approval', id: 'c1' }]);
  expect(await run.cancel({ onPendingApprovals: 'hold' })).toMatchObject({ status: 'suspended', lastSequence: 3 });
  expect(await world.redis.xlen(world.keys.events(run.runId))).toBe(3);
  expect(await world.redis.zscore(world.keys.open, run.runId)).not.toBeNull();
  expect((await world.mill.approvals()).approvals).toMatchObject([{ runId: run.runId }]);
});
