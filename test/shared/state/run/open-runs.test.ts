import { expect, test } from 'vitest';
import { stopFamily, type Family } from '../../../../src/shared/state/run/children/children.ts';
import { createRuns, newRun } from '../../../../src/shared/state/run/create-runs.ts';
import { queueExpired } from '../../../../src/shared/contract/deadline.ts';
import { endUnstarted } from '../../../../src/shared/state/run/end-unstarted.ts';
import { settledMs } from '../../../../src/shared/state/run/open-runs.ts';
import { resumeRun } from '../../../../src/shared/state/run/waits/resume.ts';
import { recordFromHash, type RunRecord } from '../../../../src/shared/contract/run.ts';
import { enterThread } from '../../../../src/shared/state/thread/lock.ts';
import { redisSupervision } from '../../../../src/shared/state/run/supervision.ts';
import { aClaim, aCommit, aRecord, opening, recovering } from '../../../contract/run-fixtures.ts';
import { redisWorld } from '../../../contract/redis-world.ts';

const farMs = 1e15;
const request = { agent: 'support', input: 'hi', thread: 't' };

/** A run in a thread, both of which are not due to be checked for a very long time. */
async function parked(changes: Partial<RunRecord>) {
  const world = await redisWorld();
  const { redis, keys, options: space } = world;
  const record = aRecord({ request, ...changes });
  const { runId, tenant } = record;
  await world.seed(record);
  await enterThread(space, { tenant, threadId: 't', runId, agentId: 'support' }, 'queue');
  await redis.zadd(keys.checks, farMs, runId);
  await redis.zadd(keys.threadChecks, farMs, `${tenant}:t`);
  const dies = () => {
    throw new Error('the process died here');
  };
  const family: Family = {
    space,
    threads: space,
    addJob: async () => {},
    onAccepted: () => {},
    onEnded: dies,
  };
  const isSoon = (score: string | null) => Number(score) > Date.now() && Number(score) <= Date.now() + settledMs;
  return {
    ...world,
    space,
    record,
    family,
    run: async () => isSoon(await redis.zscore(keys.checks, runId)),
    thread: async () => isSoon(await redis.zscore(keys.threadChecks, `${tenant}:t`)),
  };
}

test('a run is looked at soon after its creation, whose job may be lost', async () => {
  const { redis, keys, options: space } = await redisWorld();
  const run = newRun(request, { tenant: 'default' }, 'n');
  await createRuns([run], 'default', space);
  expect(Number(await redis.zscore(keys.checks, run.runId))).toBeGreaterThan(Date.now());
});

test('a run that begins to wait is looked at soon: what ends its wait may have come before', async () => {
  const { runs, record, run } = await parked({});
  const claim = aClaim(record.runId);
  const claimed = await runs.claim(claim, opening(record.runId), recovering(record.runId));
  if (claimed.kind !== 'claimed') throw new Error('not claimed');
  const waits = aCommit(claimed.seq, { patch: { status: 'suspended' }, release: 'suspended' });
  await runs.commit({ runId: record.runId, owner: claim.owner }, waits);
  expect(await run()).toBe(true);
});

test('a run whose wait ends is looked at soon, whose job may be lost', async () => {
  const { space, record, run } = await parked({ status: 'suspended' });
  const entry = { v: 1, t: 'decided', at: record.createdAt } as const;
  await resumeRun(space, record.runId, { summary: 'x', entry, atMs: Date.now() });
  expect(await run()).toBe(true);
});

test('a run that goes to another queue is looked at soon, whose job may be lost', async () => {
  const { space, record, run } = await parked({});
  await redisSupervision(space).requeue(record.runId, record.segment, 'quarantine');
  expect(await run()).toBe(true);
});

test('a run that ends before it began, by a process that dies then, is looked at soon, and so is its thread', async () => {
  const { record, family, run, thread } = await parked({});
  const { code, message, retryable } = queueExpired('runs', 1);
  const ended = endUnstarted(record, { code, message, retryable }, family, { anew: false });
  await expect(ended).rejects.toThrow('died here');
  expect([await run(), await thread()]).toEqual([true, true]);
});

test('a run that is stopped by a process that dies then is looked at soon, and so is its thread', async () => {
  const { record, family, redis, keys, run, thread } = await parked({});
  const stop = { drain: false, onPendingApprovals: 'deny' } as const;
  await expect(stopFamily(record, stop, family)).rejects.toThrow('died here');
  expect(recordFromHash(await redis.hgetall(keys.run(record.runId))).status).toBe('cancelled');
  expect([await run(), await thread()]).toEqual([true, true]);
});
