import { inject, onTestFinished, expect, test } from 'vitest';
import { controlMessage, type CancelRequest } from '../../../src/shared/contract/control.ts';
import { parseEvent, type RunEvent } from '../../../src/shared/contract/event.ts';
import { journalEntry, type JournalEntryOf } from '../../../src/shared/contract/journal/journal.ts';
import { jobIdFor } from '../../../src/shared/base/ids.ts';
import { Millrace } from '../../../src/producer/client/millrace.ts';
import type { RunFact } from '../../../src/producer/client/options.ts';
import { startRedisProxy } from '../../support/redis-proxy.ts';
import { testRedis, until } from '../../support/redis.ts';
import { checkEvent, clientWorld, codeOf, request, type ClientWorld } from '../cli/options/client.ts';
import { RunWriter } from '../support/run-writer.ts';

/** The log of a run, every event of it in the documented form. */
async function logOf({ redis, keys }: ClientWorld, runId: string): Promise<RunEvent[]> {
  const entries = await redis.xrange(keys.events(runId), '-', '+');
  for (const [, [, json]] of entries) checkEvent(json as string);
  return entries.map(([, [, json]]) => parseEvent(json as string));
}

async function withRun(fields: Record<string, string> = {}, executionId?: string) {
  const world = await clientWorld();
  const run = await world.mill.enqueue({ ...request, ...(executionId && { executionId }) });
  if (Object.keys(fields).length > 0) await world.redis.hset(world.keys.run(run.runId), fields);
  return { ...world, run };
}

const running = { status: 'running', held: '1', owner: 'someone' };
const approval = JSON.stringify([{ kind: 'approval', id: 'call-1', requestedAt: '2026-01-01T00:00:00.000Z' }]);
const suspended = { status: 'suspended', held: '0', pending: approval, costMicrocents: '42' };

test('the thread of a run is looked at soon after its cancel, in case no worker lives to release it', async () => {
  const { mill, redis, keys } = await clientWorld();
  const { runId } = await mill.enqueue({ ...request, thread: 't' });
  await redis.zadd(keys.threadChecks, Date.now() + 86_400_000, 'default:t');
  await mill.cancel(runId);
  expect(Number(await redis.zscore(keys.threadChecks, 'default:t'))).toBeLessThan(Date.now() + 20_000);
});

test('a queued run is cancelled at once: no job, one terminal event, nothing open', async () => {
  const world = await withRun();
  const { mill, run, redis, keys, bull } = world;
  const view = await run.cancel({ reason: 'not needed' });

  expect(view).toMatchObject({ status: 'cancelled', cancelling: false, endedAt: expect.any(String), lastSequence: 2 });
  const log = await logOf(world, run.runId);
  expect(log.map((event) => event.type)).toEqual(['run.queued', 'run.cancelled']);
  expect(log[1]).toMatchObject({
    reason: 'not needed',
    drained: false,
    costMicrocents: 0,
    usage: { total: 0, byModel: {} },
  });
  expect(await redis.exists(bull('runs', jobIdFor(run.runId, 0)))).toBe(0);
  expect(await redis.llen(bull('runs', 'wait'))).toBe(0);
  expect(await redis.zscore(keys.open, run.runId)).toBeNull();
  expect(await redis.sismember(keys.cancels, run.runId)).toBe(0);
  expect(await redis.xlen(keys.lifecycle)).toBe(2);
  expect(await codeOf(mill.cancel(run.runId))).toBe('already_terminal');
});

test('a cancelled run is kept as long as a finished one, with an execution id at least a day', async () => {
  const world = await clientWorld({ resultTtlS: 600, eventLogTtlS: 60, archiveTtlS: 0 });
  const { mill, redis, keys } = world;
  const plain = await mill.enqueue(request);
  const named = await mill.enqueue({ ...request, executionId: 'e' });
  await Promise.all([plain.cancel(), named.cancel()]);
  const ttl = async (key: string) => Math.ceil((await redis.ttl(key)) / 60) * 60;
  expect(await ttl(keys.run(plain.runId))).toBe(600);
  expect(await ttl(keys.events(plain.runId))).toBe(60);
  expect(await ttl(keys.run(named.runId))).toBe(86_400);
});

test('a cancelled run waits for the archive with all that it left, for a day at most', async () => {
  const { mill, redis, keys } = await clientWorld({ resultTtlS: 600, eventLogTtlS: 60 });
  const { runId } = await mill.enqueue(request);
  await mill.cancel(runId);
  for (const key of [keys.run(runId), keys.events(runId)]) expect(await redis.ttl(key)).toBeGreaterThan(86_300);
  expect(await redis.zscore(keys.archiveDue, runId)).not.toBeNull();
});

test('a delayed run and one with a priority leave no job either', async () => {
  const { mill, redis, bull } = await clientWorld();
  const delayed = await mill.enqueue({ ...request, delayMs: 60_000 });
  const urgent = await mill.enqueue({ ...request, priority: 3 });
  await Promise.all([delayed.cancel(), urgent.cancel()]);
  expect(await redis.zcard(bull('runs', 'delayed'))).toBe(0);
  expect(await redis.zcard(bull('runs', 'prioritized'))).toBe(0);
});

test('a running run is asked to stop, durably and over the control channel', async () => {
  const { run, redis, keys } = await withRun(running);
  const received: string[] = [];
  const subscriber = await testRedis('subscribe');
  subscriber.on('message', (_channel: string, message: string) => received.push(message));
  await subscriber.subscribe(keys.control);

  const view = await run.cancel();
  expect(view).toMatchObject({ status: 'running', cancelling: true });
  const cancel: CancelRequest = { drain: false, onPendingApprovals: 'deny' };
  expect(JSON.parse((await redis.hget(keys.run(run.runId), 'cancel')) as string)).toEqual(cancel);
  expect(await redis.sismember(keys.cancels, run.runId)).toBe(1);
  await until('the message', () => received.length === 1);
  expect(controlMessage.parse(JSON.parse(received[0] as string))).toEqual({
    v: 1,
    runId: run.runId,
    op: 'cancel',
    cancel,
  });
});

test('asking again changes nothing, except that stopping at once overrides draining', async () => {
  const { run, redis, keys } = await withRun(running);
  const inForce = async () => JSON.parse((await redis.hget(keys.run(run.runId), 'cancel')) as string);
  await run.cancel({ drain: true, reason: 'first' });
  await run.cancel({ drain: true, reason: 'second' });
  expect(await inForce()).toMatchObject({ drain: true, reason: 'first' });
  await run.cancel({ reason: 'now' });
  expect(await inForce()).toMatchObject({ drain: false, reason: 'now' });
  await run.cancel({ drain: true, reason: 'late' });
  expect(await inForce()).toMatchObject({ drain: false, reason: 'now' });
});

test('a run that a worker has, although its record is not running, is asked, not ended', async () => {
  const { run } = await withRun({ status: 'queued', held: '1' });
  expect(await run.cancel()).toMatchObject({ status: 'queued', cancelling: true });
});

test('a suspended run is cancelled at once with what it has cost, and its questions are closed', async () => {
  const usage = { input: 5, output: 1, cached: 0, cacheWrite: 0, total: 6, byModel: {} };
  const world = await withRun({ ...suspended, usage: JSON.stringify(usage) });
  expect(await world.run.cancel()).toMatchObject({ status: 'cancelled', pending: [], costMicrocents: 42 });
  const log = await logOf(world, world.run.runId);
  expect(log.at(-1)).toMatchObject({ type: 'run.cancelled', usage, costMicrocents: 42 });
});

test('the open calls of a cancelled run are denied, in its log and in its journal', async () => {
  const calls = [
    { kind: 'approval', id: 'c"1', toolName: 'transfer', args: {}, requestedAt: '2026-01-01T00:00:00.000Z' },
    { kind: 'user_input', id: 'q1', toolName: 'ask_user', requestedAt: '2026-01-01T00:00:00.000Z' },
  ];
  for (const status of ['suspended', 'queued']) {
    const world = await withRun({ ...suspended, status, pending: JSON.stringify(calls) });
    const { run, redis, keys } = world;
    expect(await run.cancel()).toMatchObject({ status: 'cancelled', pending: [] });
    const log = await logOf(world, run.runId);
    expect(log.slice(1)).toMatchObject([
      { type: 'tool.approval.denied', toolCallId: 'c"1', toolName: 'transfer', reason: 'the run was cancelled' },
      { type: 'tool.approval.denied', toolCallId: 'q1', toolName: 'ask_user' },
      { type: 'run.cancelled' },
    ]);
    const [last = ''] = await redis.lrange(keys.journal(run.runId), -1, -1);
    const { decisions } = journalEntry.parse(JSON.parse(last)) as JournalEntryOf<'decided'>;
    expect(decisions).toMatchObject([
      { kind: 'approval', id: 'c"1', granted: false, reason: 'the run was cancelled' },
      { id: 'q1', granted: false },
    ]);
  }
});

test('a run that waits for people goes on waiting when that is asked for, says so, and can be decided about', async () => {
  for (const status of ['suspended', 'queued']) {
    const world = await withRun({ ...suspended, status });
    const { run, redis, keys } = world;
    const held = await run.cancel({ onPendingApprovals: 'hold', drain: true });
    expect(held).toMatchObject({ status, cancelling: false, pending: [{ toolCallId: 'call-1' }], lastSequence: 2 });
    const log = await logOf(world, run.runId);
    expect(log.at(-1)).toMatchObject({ type: 'agent.cancelling', drain: true, onPendingApprovals: 'hold' });
    expect(await redis.hexists(keys.run(run.runId), 'cancel')).toBe(0);
    expect(await redis.sismember(keys.cancels, run.runId)).toBe(0);
    expect((await run.approve()).run).toMatchObject({ status: 'queued', pending: [] });
  }
});

test('a run that waits for no person is cancelled although the request says `hold`', async () => {
  const { run } = await withRun();
  expect(await run.cancel({ onPendingApprovals: 'hold' })).toMatchObject({ status: 'cancelled' });
});

test('a run that ended and could not notify its parent stays listed, so that another process does', async () => {
  const world = await withRun();
  const { mill, redis, keys } = world;
  const { runId } = await mill.enqueue(request);
  const parent = JSON.stringify({ runId: world.run.runId, depth: 1, expose: 'none', ancestors: [], payers: [] });
  await redis.hset(keys.run(runId), { ...suspended, parent });
  await redis.del(keys.run(world.run.runId));
  await redis.set(keys.run(world.run.runId), 'unreadable');

  expect(await codeOf(mill.cancel(runId))).not.toBe('already_terminal');
  expect(await redis.hget(keys.run(runId), 'status')).toBe('cancelled');
  expect(await redis.zscore(keys.checks, runId)).not.toBeNull();
  expect(await redis.zscore(keys.open, runId)).not.toBeNull();
});

test('a suspended run can be failed because of its open questions, or left to wait for them', async () => {
  const world = await withRun(suspended);
  const { run, redis, keys } = world;
  expect(await run.cancel({ onPendingApprovals: 'hold' })).toMatchObject({ status: 'suspended', cancelling: false });
  expect(await redis.sismember(keys.cancels, run.runId)).toBe(0);
  expect(await run.cancel({ onPendingApprovals: 'fail' })).toMatchObject({
    status: 'failed',
    error: { code: 'run_aborted' },
  });
  expect((await logOf(world, run.runId)).at(-1)).toMatchObject({ type: 'run.failed', error: { code: 'run_aborted' } });
});

const begun = { ...suspended, epoch: '1', steps: '2', toolCalls: '3', startedAt: '2026-01-01T00:00:00.000Z' };
const usageZero = { input: 0, output: 0, cached: 0, cacheWrite: 0, total: 0, byModel: {} };

test('a run that has begun and waits reports its end as on a worker: the cancel, what it used, its agent, and itself', async () => {
  const world = await withRun(begun);
  await world.run.cancel();
  const log = (await logOf(world, world.run.runId)).slice(1);
  expect(log.map(({ type }) => type)).toEqual([
    'agent.cancelling',
    'tool.approval.denied',
    'usage.recorded',
    'agent.end',
    'run.cancelled',
  ]);
  expect(log[0]).toMatchObject({ drain: false, onPendingApprovals: 'deny' });
  expect(log[2]).toMatchObject({ usage: usageZero, costMicrocents: 42, steps: 2, toolCalls: 3 });
  expect(log[2]).toHaveProperty('durationMs');
  expect(log[3]).toMatchObject({ status: 'cancelled', output: '' });
});

test('the same where it fails for what was open', async () => {
  const world = await withRun(begun);
  await world.run.cancel({ onPendingApprovals: 'fail' });
  const log = (await logOf(world, world.run.runId)).slice(1);
  expect(log.map(({ type }) => type)).toEqual(['agent.cancelling', 'usage.recorded', 'agent.error', 'run.failed']);
  expect(log[2]).toMatchObject({ code: 'run_aborted' });
});

test('only the client that ends a run without a worker gets the fact', async () => {
  const ended: unknown[] = [];
  const { prefix, redis, keys } = await clientWorld();
  const onRun = (fact: RunFact) => fact.kind === 'ended' && ended.push(fact);
  const mill = new Millrace({ redis: inject('redisUrl'), prefix, onRun });
  onTestFinished(() => mill.close());
  const [queued, working] = [await mill.enqueue(request), await mill.enqueue(request)];
  await redis.hset(keys.run(working.runId), running);
  await Promise.all([queued.cancel(), working.cancel()]);
  expect(ended).toMatchObject([{ agent: request.agent, jobKind: 'agent.turn', status: 'cancelled' }]);
});

test.each([
  ['money', JSON.stringify([{ kind: 'budget', id: 'run:r', requestedAt: '2026-01-01T00:00:00.000Z' }])],
  ['people', approval],
])('a run of a thread that waits for %s goes on waiting when that is asked for', async (_, pending) => {
  const world = await withRun({ ...begun, thread: 't', pending });
  const { run, redis, keys } = world;
  expect(await run.cancel({ onPendingApprovals: 'hold' })).toMatchObject({ status: 'suspended', cancelling: false });
  expect(await redis.hexists(keys.run(run.runId), 'cancel')).toBe(0);
  expect(await run.cancel({ onPendingApprovals: 'fail' })).toMatchObject({ status: 'queued', cancelling: true });
});

test('without open questions `fail` is a plain cancel', async () => {
  const { run } = await withRun();
  expect(await run.cancel({ onPendingApprovals: 'fail' })).toMatchObject({ status: 'cancelled' });
});

test('twenty parallel cancels of a queued run end it once', async () => {
  const world = await withRun();
  const outcomes = await Promise.all(Array.from({ length: 20 }, () => codeOf(world.run.cancel())));
  expect(outcomes.filter((outcome) => outcome === 'already_terminal')).toHaveLength(19);
  expect(await logOf(world, world.run.runId)).toHaveLength(2);
});

test('the number of the last event continues what the log holds, not what the record remembers', async () => {
  const world = await withRun({ status: 'suspended' });
  const writer = new RunWriter(world.redis, world.keys, world.run.runId);
  await writer.text(4);
  expect(await world.run.cancel()).toMatchObject({ lastSequence: 6 });
});

const codeOfError = (error: { code?: string }) => error.code;

test('a cancel whose reply was lost ends the run once and says so', async () => {
  const proxy = await startRedisProxy(inject('redisUrl'));
  onTestFinished(() => proxy[Symbol.asyncDispose]());
  const world = await clientWorld();
  const mill = new Millrace({ redis: proxy.url, prefix: world.prefix });
  onTestFinished(() => mill.close());
  for (let replies = 0; replies < 6; replies++) {
    const { runId } = await mill.enqueue(request);
    const cancelled = mill.cancel(runId);
    // Let some replies through first, so that another command loses its own each time.
    for (let i = 0; i < replies; i++) await world.redis.ping();
    await Promise.all([proxy.dropRepliesOnce(), mill.agents().catch(() => {})]);
    expect(['cancelled', 'queue_unavailable']).toContain(await cancelled.then((view) => view.status, codeOfError));
    await until('ended', async () => (await mill.get(runId).catch(() => undefined))?.status === 'cancelled');
    expect(await logOf(world, runId)).toHaveLength(2);
  }
});

test('a request of a wrong shape is refused before anything happens', async () => {
  const { run, redis, keys } = await withRun(running);
  expect(await codeOf(run.cancel({ drain: 'yes' } as never))).toBe('validation');
  expect(await codeOf(run.cancel({ reason: 'x'.repeat(501) }))).toBe('validation');
  expect(await redis.hexists(keys.run(run.runId), 'cancel')).toBe(0);
});
