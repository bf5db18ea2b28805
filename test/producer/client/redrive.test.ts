import { expect, test } from 'vitest';
import type { RunEvent } from '../../../src/shared/contract/event.ts';
import { jobIdFor } from '../../../src/shared/base/ids.ts';
import { forgetOpen } from '../../../src/shared/state/run/open-runs.ts';
import { clientWorld, codeOf, request, type ClientWorld } from '../cli/options/client.ts';
import { RunWriter } from '../support/run-writer.ts';
import { runKeySpace } from '../../support/run-key-space.ts';

/** A run as a worker leaves it when it failed for good. */
async function failedRun(world: ClientWorld) {
  const { mill, redis, keys, bull } = world;
  const run = await mill.enqueue(request);
  const writer = new RunWriter(redis, keys, run.runId);
  await writer.start();
  await writer.text(3);
  await redis.rpush(
    keys.journal(run.runId),
    '{"v":1,"t":"agent_started"}',
    '{"v":1,"t":"model_response"}',
    '{"v":1,"t":"closed"}',
  );
  await writer.end('failed');
  await redis.hset(keys.run(run.runId), { workedMs: 300_000, crashes: 3, blame: 4, excuses: 1 });
  await redis.expire(keys.run(run.runId), 100);
  await redis.expire(keys.journal(run.runId), 100);
  await redis.zrem(keys.open, run.runId);
  const jobId = jobIdFor(run.runId, 0);
  await redis.lrem(bull('runs', 'wait'), 0, jobId);
  await redis.zadd(bull('runs', 'failed'), Date.now(), jobId);
  return { run, writer };
}

async function types(events: AsyncIterable<RunEvent>, upTo: number): Promise<string[]> {
  const seen: string[] = [];
  for await (const event of events) {
    seen.push(`${event.sequenceNumber} ${event.type}`);
    if (seen.length === upTo) break;
  }
  return seen;
}

test('a failed run is queued again in a new job and continues from its journal', async () => {
  const world = await clientWorld();
  const { mill, redis, keys, bull } = world;
  const { run } = await failedRun(world);
  const { endedAt: failedAt } = await run.get();

  expect(await mill.redrive({ runId: run.runId })).toEqual({
    redriven: [run.runId],
    late: [],
    skipped: 0,
    more: false,
  });
  const view = await run.get();
  expect(view).toMatchObject({ status: 'queued', lastSequence: 6 });
  const [first] = await redis.xrange(keys.events(run.runId), '-', '+');
  expect(JSON.parse(first?.[1][1] ?? '')).toMatchObject({ type: 'run.queued', failedAt });
  expect(view.error).toBeUndefined();
  expect(view.endedAt).toBeUndefined();
  expect(await redis.hexists(keys.run(run.runId), 'workedMs'), 'it has its whole wall time again').toBe(0);
  const counted = await redis.hmget(keys.run(run.runId), 'crashes', 'blame', 'excuses');
  expect(counted, 'it is blamed for nothing').toEqual(['0', '0', '0']);
  expect(await redis.lrange(bull('runs', 'wait'), 0, -1)).toEqual([jobIdFor(run.runId, 1)]);
  expect(await redis.zcard(bull('runs', 'failed'))).toBe(0);
  expect(await redis.lrange(keys.journal(run.runId), 0, -1)).toEqual([
    '{"v":1,"t":"agent_started"}',
    '{"v":1,"t":"model_response"}',
  ]);
  expect(await redis.ttl(keys.run(run.runId))).toBe(-1);
  expect(await redis.ttl(keys.journal(run.runId))).toBe(-1);
  expect(await redis.zscore(keys.open, run.runId)).not.toBeNull();
});

test('the log of a run that was redriven begins anew and its numbers go on', async () => {
  const world = await clientWorld();
  const { mill, redis, keys } = world;
  const { run } = await failedRun(world);
  await mill.redrive({ runId: run.runId });
  const writer = new RunWriter(redis, keys, run.runId, 6);
  await writer.end();

  expect(await types(run.events(), 9)).toEqual(['6 run.queued', '7 run.completed']);
  expect(await types(run.events({ after: 5 }), 9)).toEqual(['6 run.queued', '7 run.completed']);
  expect(await codeOf(types(run.events({ after: 2 }), 9))).toBe('replay_truncated');
});

test('a run whose log has expired can still be redriven', async () => {
  const world = await clientWorld();
  const { run } = await failedRun(world);
  await world.redis.del(world.keys.events(run.runId));
  await world.mill.redrive({ runId: run.runId });
  expect(await types(run.events(), 1)).toEqual(['6 run.queued']);
});

test('only failed runs are redriven, each once', async () => {
  const world = await clientWorld();
  const { run } = await failedRun(world);
  const fresh = await world.mill.enqueue(request);
  expect(await codeOf(world.mill.redrive({ runId: fresh.runId }))).toBe('validation');
  expect(await codeOf(world.mill.redrive({ runId: '01HZZZZZZZZZZZZZZZZZZZZZZZ' }))).toBe('run_not_found');
  const both = await Promise.all([1, 2].map(() => codeOf(world.mill.redrive({ runId: run.runId }))));
  expect(both.filter((code) => code === 'validation')).toHaveLength(1);
});

test('all failed runs are redriven up to the limit, and only those with the code that was asked for', async () => {
  const world = await clientWorld();
  const failed = [await failedRun(world), await failedRun(world), await failedRun(world)];
  await world.mill.enqueue(request);
  expect(await world.mill.redrive({ errorCode: 'internal' })).toEqual({
    redriven: [],
    late: [],
    skipped: 0,
    more: false,
  });
  const first = await world.mill.redrive({ limit: 2, errorCode: 'provider_unavailable' });
  expect(first).toMatchObject({ more: true });
  const second = await world.mill.redrive();
  expect(second).toMatchObject({ more: false });
  const expected = failed.map(({ run }) => run.runId);
  expect([...first.redriven, ...second.redriven].toSorted()).toEqual(expected.toSorted());
});

test('a request that makes no sense is refused', async () => {
  const { mill } = await clientWorld();
  expect(await codeOf(mill.redrive({ limit: 0 }))).toBe('validation');
  expect(await codeOf(mill.redrive({ errorCode: 'nothing' as never }))).toBe('validation');
});

test('a run that is redriven before the worker that ended it has cleaned up stays listed', async () => {
  const world = await clientWorld();
  const { mill, redis, keys } = world;
  const { runId } = (await failedRun(world)).run;
  await mill.redrive({ runId, deadlineMs: 60_000 });
  await forgetOpen(runKeySpace(redis, keys), runId, mill.tenant ?? 'default');

  expect(await redis.zscore(keys.open, runId)).not.toBeNull();
  expect(await redis.zscore(keys.checks, runId)).not.toBeNull();
  expect(await redis.zscore(keys.deadlines, runId)).not.toBeNull();
  expect(await redis.sismember(keys.openOf(mill.tenant ?? 'default'), runId)).toBe(1);
});
