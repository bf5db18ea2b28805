import { expect, test } from 'vitest';
import { parseEvent, type RunEvent } from '../../../src/shared/contract/event.ts';
import { jobIdFor } from '../../../src/shared/base/ids.ts';
import { checkEvent, clientWorld, codeOf, request, type ClientWorld } from '../cli/options/client.ts';
import { RunWriter } from '../support/run-writer.ts';
import { suspendedRun } from '../support/suspended.ts';

const money = [{ kind: 'budget', id: 'batch:b1' }] as const;

async function logOf({ redis, keys }: ClientWorld, runId: string): Promise<RunEvent[]> {
  const entries = await redis.xrange(keys.events(runId), '-', '+');
  for (const [, [, json]] of entries) checkEvent(json as string);
  return entries.map(([, [, json]]) => parseEvent(json as string));
}

async function journalOf({ redis, keys }: ClientWorld, runId: string) {
  return (await redis.lrange(keys.journal(runId), 0, -1)).map((text) => JSON.parse(text) as Record<string, unknown>);
}

test('an approved run is queued again with the decision in its journal, and goes first', async () => {
  const world = await clientWorld({ queues: ['runs', 'bulk'] });
  const { mill, redis, bull } = world;
  const run = await suspendedRun(world, money, { queue: 'bulk', thread: 't1', priority: 7 });
  const waiting = await mill.enqueue({ ...request, queue: 'bulk' });
  const { run: view } = await run.approve({ by: 'ada' });
  expect(view).toMatchObject({ status: 'queued', queue: 'bulk', pending: [], costMicrocents: 42, lastSequence: 3 });
  expect((await journalOf(world, run.runId)).at(-1)).toEqual({
    v: 1,
    t: 'decided',
    at: expect.any(String),
    by: 'ada',
    budget: 'approve',
  });
  const log = await logOf(world, run.runId);
  expect(log.map(({ type }) => type)).toEqual(['run.queued', 'run.suspended', 'run.resumed']);
  expect(log.at(-1)).toMatchObject({ directiveSummary: 'budget approved', agentId: 'support', threadId: 't1' });
  const jobs = await redis.lrange(bull('bulk', 'wait'), 0, -1);
  // BullMQ takes from the end of the list.
  expect(jobs).toEqual([jobIdFor(waiting.runId, 0), jobIdFor(run.runId, 1)]);
});

test('a rejected run is queued as well, to end with the reason in its log', async () => {
  const world = await clientWorld();
  const run = await suspendedRun(world, money);
  expect((await run.reject('not worth it')).run.status).toBe('queued');
  expect((await journalOf(world, run.runId)).at(-1)).toMatchObject({ t: 'decided', budget: 'reject' });
  expect((await logOf(world, run.runId)).at(-1)).toMatchObject({ directiveSummary: 'budget rejected: not worth it' });
});

test('of twenty clicks one decides: one entry, one event, one job', async () => {
  const world = await clientWorld();
  const { mill, redis, bull } = world;
  const run = await suspendedRun(world, money);
  const answers = await Promise.all(
    Array.from({ length: 20 }, () => codeOf(mill.decide(run.runId, { budget: 'approve' }))),
  );
  expect(answers.filter((code) => code !== 'approval_not_pending')).toHaveLength(1);
  expect(await journalOf(world, run.runId)).toHaveLength(3);
  expect((await logOf(world, run.runId)).filter(({ type }) => type === 'run.resumed')).toHaveLength(1);
  const jobs = await redis.lrange(bull('runs', 'wait'), 0, -1);
  expect(jobs.filter((id) => id !== jobIdFor(run.runId, 0))).toEqual([jobIdFor(run.runId, 1)]);
});

test('a decided run leaves the wait queue for the money and has no timer', async () => {
  const world = await clientWorld();
  const { redis, keys } = world;
  const run = await suspendedRun(world, money);
  await redis.zadd(keys.accountWaiting('default', 'batch', 'b1'), 1, run.runId);
  await redis.zadd(keys.timers, Date.now() + 60_000, run.runId);
  await run.approve();
  expect(await redis.zcard(keys.accountWaiting('default', 'batch', 'b1'))).toBe(0);
  expect(await redis.zcard(keys.timers)).toBe(0);
});

test('a run that does not wait for money cannot be decided about', async () => {
  const world = await clientWorld();
  const { mill, redis, keys } = world;
  const queued = await mill.enqueue(request);
  const limited = await suspendedRun(world, [{ kind: 'provider_limit', id: 'openai:m' }]);
  const ended = await mill.enqueue(request);
  await new RunWriter(redis, keys, ended.runId).end();
  expect(await codeOf(queued.approve())).toBe('approval_not_pending');
  expect(await codeOf(limited.approve())).toBe('approval_not_pending');
  expect(await codeOf(limited.topUp(5))).toBe('approval_not_pending');
  expect(await codeOf(ended.reject())).toBe('already_terminal');
});

test('a run of another tenant is not there to be decided about', async () => {
  const world = await clientWorld();
  const run = await suspendedRun(world, money);
  const other = world.mill.forTenant('other');
  expect(await codeOf(other.decide(run.runId, { budget: 'approve' }))).toBe('run_not_found');
  expect((await run.get()).status).toBe('suspended');
});

test('a run that waits for money is cancelled at once and leaves the wait queue', async () => {
  const world = await clientWorld();
  const { redis, keys } = world;
  const run = await suspendedRun(world, money);
  await redis.zadd(keys.accountWaiting('default', 'batch', 'b1'), 1, run.runId);
  await redis.zadd(keys.timers, Date.now() + 60_000, run.runId);
  expect((await run.cancel()).status).toBe('cancelled');
  expect(await redis.zcard(keys.accountWaiting('default', 'batch', 'b1'))).toBe(0);
  expect(await redis.zcard(keys.timers)).toBe(0);
  expect(await redis.zscore(keys.open, run.runId)).toBeNull();
});

test('a run that waits for no person is cancelled also with `hold`', async () => {
  const world = await clientWorld();
  const limited = await suspendedRun(world, [{ kind: 'provider_limit', id: 'openai:m' }]);
  const paused = await suspendedRun(world, money);
  expect((await limited.cancel({ onPendingApprovals: 'hold' })).status).toBe('cancelled');
  expect((await paused.cancel({ onPendingApprovals: 'hold' })).status).toBe('suspended');
});
