import { expect, test } from 'vitest';
import { parseEvent } from '../../../../../src/shared/contract/event.ts';
import { jobIdFor } from '../../../../../src/shared/base/ids.ts';
import { redisRuns } from '../../../../../src/shared/state/run/run-store.ts';
import { systemClock } from '../../../../../src/shared/base/clock.ts';
import { silentLog } from '../../../../../src/shared/base/log.ts';
import { aTerminalCommit } from '../../../../contract/run-fixtures.ts';
import { claimed } from '../../../../contract/store-world.ts';
import { checkEvent, clientWorld, codeOf, type ClientWorld } from '../../../../producer/cli/options/client.ts';
import { suspendedRun } from '../../../../producer/support/suspended.ts';
import { runKeySpace } from '../../../../support/run-key-space.ts';

const transfer = { kind: 'approval', id: 'call_1', toolName: 'transfer', args: { amount: 500, to: [] } } as const;
const second = { ...transfer, id: 'call_2' } as const;
const question = { kind: 'user_input', id: 'q_1', toolName: 'ask_user', reason: 'Which colour?' } as const;
const money = { kind: 'budget', id: 'batch:b1' } as const;

async function journalOf({ redis, keys }: ClientWorld, runId: string) {
  return (await redis.lrange(keys.journal(runId), 0, -1)).map((text) => JSON.parse(text) as Record<string, unknown>);
}

async function messageOf(call: Promise<unknown>): Promise<string> {
  return await call.then(
    () => 'nothing was thrown',
    (error: unknown) => (error as Error).message,
  );
}

test('an approved call queues the run, first in its queue, with the edited arguments in its journal', async () => {
  const world = await clientWorld({ queues: ['runs', 'bulk'] });
  const { redis, bull, keys } = world;
  const run = await suspendedRun(world, [transfer], { queue: 'bulk', thread: 't1' });
  await redis.zadd(keys.timers, Date.now() + 60_000, run.runId);
  const updatedArgs = { amount: 50, to: [], note: 'ä "quoted"' };
  const { run: view } = await run.approve({ calls: 'call_1', updatedArgs, reason: 'fine', by: 'kim' });
  expect(view).toMatchObject({ status: 'queued', queue: 'bulk', pending: [], lastSequence: 3 });
  expect(view.decisions).toEqual([
    {
      toolCallId: 'call_1',
      toolName: 'transfer',
      kind: 'approval',
      granted: true,
      by: ['kim'],
      at: expect.any(String),
      reason: 'fine',
      edited: true,
    },
  ]);
  const at = view.decisions?.[0]?.at;
  const decision = { kind: 'approval', id: 'call_1', granted: true, reason: 'fine', updatedArgs, by: ['kim'], at };
  expect((await journalOf(world, run.runId)).at(-1)).toEqual({ v: 1, t: 'decided', at, decisions: [decision] });
  expect(await redis.lrange(bull('bulk', 'wait'), 0, -1)).toContain(jobIdFor(run.runId, 1));
  expect(await redis.zcard(keys.timers)).toBe(0);
  expect(await redis.zcard(keys.asking('default'))).toBe(0);
  const [, [, json = '']] = (await redis.xrevrange(keys.events(run.runId), '+', '-', 'COUNT', 1))[0] ?? ['', []];
  checkEvent(json);
  expect(parseEvent(json)).toMatchObject({
    type: 'run.resumed',
    directiveSummary: 'call_1 approved: fine',
    threadId: 't1',
  });
});

test('of twenty approvals at once all are accepted, with one entry, one event and one job', async () => {
  const world = await clientWorld();
  const { mill, redis, bull, keys } = world;
  const run = await suspendedRun(world, [transfer]);
  const approvals = [{ toolCallId: 'call_1', granted: true }];
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, i) => mill.decide(run.runId, { approvals }, { by: `p${i}` })),
  );
  expect(answers.map((answer) => answer.run.status)).toEqual(Array<string>(20).fill('queued'));
  expect((await journalOf(world, run.runId)).filter(({ t }) => t === 'decided')).toHaveLength(1);
  expect(await redis.xlen(keys.events(run.runId))).toBe(3);
  const jobs = await redis.lrange(bull('runs', 'wait'), 0, -1);
  expect(jobs.filter((id) => id !== jobIdFor(run.runId, 0))).toEqual([jobIdFor(run.runId, 1)]);
});

test('two processes decide about one call each: one resumes, and the other decision waits for the worker', async () => {
  const world = await clientWorld();
  const other = await clientWorld({ prefix: world.prefix });
  const run = await suspendedRun(world, [transfer, second]);
  const [first, last] = await Promise.all([
    world.mill.decide(run.runId, { approvals: [{ toolCallId: 'call_1', granted: true }] }),
    other.mill.decide(run.runId, { approvals: [{ toolCallId: 'call_2', granted: false, reason: 'no' }] }),
  ]);
  expect([first.run.status, last.run.status]).toEqual(['queued', 'queued']);
  const view = await run.get();
  expect(view.pending).toEqual([]);
  expect(view.decisions?.map(({ toolCallId, granted }) => [toolCallId, granted])).toEqual(
    expect.arrayContaining([
      ['call_1', true],
      ['call_2', false],
    ]),
  );
  const journal = (await journalOf(world, run.runId)).filter(({ t }) => t === 'decided');
  expect(journal).toHaveLength(1);
  expect(await world.redis.llen(world.keys.decided(run.runId))).toBe(1);
});

test('what is decided already says by whom, and nothing of the request is taken', async () => {
  const world = await clientWorld();
  const run = await suspendedRun(world, [transfer, second]);
  await run.deny({ calls: 'call_1', reason: 'no', by: 'ada' });
  const both = [
    { toolCallId: 'call_2', granted: true },
    { toolCallId: 'call_1', granted: true },
  ];
  const refused = world.mill.decide(run.runId, { approvals: both }, { by: 'kim' });
  expect(await messageOf(refused)).toMatch(/call call_1 of run \w+ was denied by ada at 20/);
  expect((await run.get()).pending).toMatchObject([{ toolCallId: 'call_2' }]);
});

test('without names everything that waits is approved, or denied; a question is left to be answered', async () => {
  const world = await clientWorld();
  const run = await suspendedRun(world, [transfer, question, second]);
  const { run: view } = await run.approve();
  expect(view).toMatchObject({ status: 'queued', pending: [{ toolCallId: 'q_1' }] });
  expect((await run.answer('q_1', 'blue', { by: 'kim' })).run.pending).toEqual([]);
  expect((await run.get()).decisions?.at(-1)).toMatchObject({ toolCallId: 'q_1', answered: true, by: ['kim'] });

  const asks = await suspendedRun(world, [question]);
  expect(await messageOf(asks.approve())).toMatch(/asks a question \(q_1\): answer it/);
  expect((await asks.deny()).run.decisions).toMatchObject([{ toolCallId: 'q_1', granted: false, by: [] }]);
  expect(await codeOf(asks.deny())).toBe('approval_not_pending');
});

test('arguments need one call that they are for', async () => {
  const world = await clientWorld();
  const run = await suspendedRun(world, [transfer, second]);
  expect(await messageOf(run.approve({ updatedArgs: { a: 1 } }))).toMatch(/exactly one call.*call_1 and call_2/);
  const single = await suspendedRun(world, [transfer]);
  expect((await single.approve({ updatedArgs: { a: 1 } })).run.decisions).toMatchObject([{ edited: true }]);
});

test('money and calls are decided in one request, and the run leaves the wait queue for money', async () => {
  const world = await clientWorld();
  const { redis, keys } = world;
  const run = await suspendedRun(world, [transfer, money]);
  await redis.zadd(keys.accountWaiting('default', 'batch', 'b1'), 1, run.runId);
  expect((await run.approve({ by: 'kim' })).run).toMatchObject({ status: 'queued', pending: [] });
  expect((await journalOf(world, run.runId)).at(-1)).toMatchObject({
    budget: 'approve',
    by: 'kim',
    decisions: [{ id: 'call_1', granted: true }],
  });
  expect(await redis.zcard(keys.accountWaiting('default', 'batch', 'b1'))).toBe(0);
});

test('a top-up beside a decision about a call is not made when the call is refused', async () => {
  const world = await clientWorld();
  await world.mill.budgets.set('batch', 'b1', { maxCostUsd: 1 });
  const run = await suspendedRun(world, [transfer, money]);
  const request = (toolCallId: string) => ({
    approvals: [{ toolCallId, granted: true }],
    budget: { topUpUsd: 1 },
  });
  expect(await codeOf(world.mill.decide(run.runId, request('call_9')))).toBe('approval_not_pending');
  expect((await world.mill.budgets.get('batch', 'b1')).capMicrocents).toBe(100_000_000);
  const { budget, run: view } = await world.mill.decide(run.runId, request('call_1'));
  expect([budget?.capMicrocents, view.status]).toEqual([200_000_000, 'queued']);
});

test.each([
  [
    'a credential among the arguments',
    { toolCallId: 'call_1', granted: true, updatedArgs: { deep: { apiKey: 'x' } } },
    'secret_in_payload',
  ],
  [
    'arguments of more than 256 KB',
    { toolCallId: 'call_1', granted: true, updatedArgs: { a: 'x'.repeat(262_144) } },
    'validation',
  ],
  ['arguments nested too deep', { toolCallId: 'call_1', granted: true, updatedArgs: nested(70) }, 'too_deep'],
  ['no id', { toolCallId: '', granted: true }, 'validation'],
])('a decision with %s is refused and changes nothing', async (_, approval, code) => {
  const world = await clientWorld();
  const run = await suspendedRun(world, [transfer]);
  expect(await codeOf(world.mill.decide(run.runId, { approvals: [approval] }))).toBe(code);
  expect(await run.get()).toMatchObject({ status: 'suspended', pending: [{ toolCallId: 'call_1' }] });
});

function nested(levels: number): Record<string, unknown> {
  return levels === 0 ? {} : { a: nested(levels - 1) };
}

test.each(['', '   ', 'x'.repeat(201)])('a name of a wrong length (%#) is refused', async (by) => {
  const world = await clientWorld();
  const run = await suspendedRun(world, [transfer]);
  expect(await codeOf(run.approve({ by }))).toBe('validation');
});

test('a call that is named twice in one request is refused', async () => {
  const world = await clientWorld();
  const run = await suspendedRun(world, [transfer]);
  const twice = {
    approvals: [{ toolCallId: 'call_1', granted: true }],
    answers: [{ toolCallId: 'call_1', answer: 'a' }],
  };
  expect(await messageOf(world.mill.decide(run.runId, twice))).toMatch(/names call call_1 twice/);
});

test('names that look the same are one person', async () => {
  const world = await clientWorld();
  const run = await suspendedRun(world, [{ ...transfer, approvers: 2 }]);
  await run.approve({ by: 'Zo\u00eb' });
  const { run: view } = await run.approve({ by: ' Zoe\u0308 ' });
  expect(view).toMatchObject({ status: 'suspended', decisions: [{ votes: [{ by: 'Zo\u00eb' }], by: [] }] });
  expect(view.decisions?.[0]?.granted).toBeUndefined();
});

test('decisions are kept as long as the record of the run, however it ends', async () => {
  const world = await clientWorld({ resultTtlS: 600 });
  const { redis, keys } = world;
  const options = {
    ...runKeySpace(redis, keys),
    eventLogTtlS: 60,
    clock: systemClock,
    log: silentLog,
  };
  const ttls = async (runId: string) =>
    await Promise.all([redis.ttl(keys.decisions(runId)), redis.ttl(keys.decided(runId)), redis.ttl(keys.run(runId))]);

  const ended = await suspendedRun(world, [transfer, second]);
  await ended.approve({ calls: 'call_1' });
  expect((await ttls(ended.runId))[0]).toBeGreaterThan(300 * 86_400);
  const runs = redisRuns({ ...options, resultTtlS: 600 });
  const { owner, seq } = await claimed({ runs }, ended.runId, { segment: 1 });
  await ended.deny({ calls: 'call_2' });
  expect((await ttls(ended.runId))[1]).toBeGreaterThan(300 * 86_400);
  await runs.commit({ runId: ended.runId, owner }, aTerminalCommit(ended.runId, seq));
  const cancelled = await suspendedRun(world, [transfer, second]);
  await cancelled.approve({ calls: 'call_1' });
  await cancelled.cancel();
  for (const { runId } of [ended, cancelled]) {
    const [decisions, decided, record] = await ttls(runId);
    expect(record).toBeGreaterThan(590);
    expect(Math.abs(decisions - record)).toBeLessThanOrEqual(1);
    // -2: there is none.
    expect([-2, record - 1, record, record + 1]).toContain(decided);
  }
  expect((await ended.get()).decisions).toHaveLength(2);
});

test('a run that is redriven keeps its decisions for good', async () => {
  const world = await clientWorld();
  const { redis, keys, mill } = world;
  const run = await suspendedRun(world, [transfer, second]);
  await run.approve({ calls: 'call_1' });
  await run.cancel({ onPendingApprovals: 'fail' });
  expect(await redis.ttl(keys.decisions(run.runId))).toBeGreaterThan(0);
  await mill.redrive({ runId: run.runId });
  expect(await redis.ttl(keys.decisions(run.runId))).toBe(-1);
});
