import { expect, test } from 'vitest';
import type { PendingItem } from '../../../src/shared/contract/event.ts';
import { systemClock } from '../../../src/shared/base/clock.ts';
import { silentLog } from '../../../src/shared/base/log.ts';
import { redisRuns } from '../../../src/shared/state/run/run-store.ts';
import { aCommit } from '../../contract/run-fixtures.ts';
import { claimed } from '../../contract/store-world.ts';
import { clientWorld, codeOf, request, type ClientWorld } from '../cli/options/client.ts';
import { RunWriter } from '../support/run-writer.ts';
import { suspendedRun } from '../support/suspended.ts';
import { runKeySpace } from '../../support/run-key-space.ts';

const call = (id: string) => ({ kind: 'approval', id, toolName: 'transfer', args: { to: [] } }) as const;

/** A run that the worker's own store has suspended. */
async function suspendedByWorker({ mill, redis, keys }: ClientWorld, pending: PendingItem[]): Promise<string> {
  const { runId } = await mill.enqueue(request);
  const options = runKeySpace(redis, keys);
  const runs = redisRuns({ ...options, clock: systemClock, log: silentLog });
  const { owner, seq } = await claimed({ runs }, runId);
  const patch = { status: 'suspended', pending } as const;
  await runs.commit({ runId, owner }, aCommit(seq, { patch, release: 'suspended' }));
  return runId;
}

test('what runs wait for people is listed, newest first, with all that an inbox shows', async () => {
  const world = await clientWorld();
  const { mill } = world;
  const classification = { trust: 'user-defined', sideEffectClass: 'external', sensitivity: 'internal' };
  const old: PendingItem = {
    kind: 'approval',
    id: 'c1',
    toolName: 'transfer',
    args: { amount: 5, to: [] },
    reason: 'over 100',
    requestedAt: '2026-01-01T00:00:00.000Z',
    expiresAt: '2099-01-02T00:00:00.000Z',
    mode: 'deferred',
    approvers: 2,
    classification,
  };
  const { id: _, ...shown } = old;
  const first = await suspendedByWorker(world, [old]);
  const paid = await suspendedByWorker(world, [
    { kind: 'budget', id: 'batch:b1', reason: '$0.02 more', requestedAt: '2026-01-03T00:00:00.000Z' },
  ]);
  await suspendedByWorker(world, [{ kind: 'provider_limit', id: 'openai:m', requestedAt: '2026-01-04T00:00:00.000Z' }]);
  await mill.decide(first, { approvals: [{ toolCallId: 'c1', granted: true, reason: 'ok' }] }, { by: 'kim' });

  const { approvals, cursor } = await mill.approvals();
  expect(cursor).toBeUndefined();
  expect(approvals).toEqual([
    expect.objectContaining({ runId: paid, kind: 'budget', id: 'batch:b1', reason: '$0.02 more', votes: [] }),
    {
      ...shown,
      toolCallId: 'c1',
      runId: first,
      agent: 'support',
      inputPreview: request.input,
      votes: [{ by: 'kim', granted: true, at: expect.any(String), reason: 'ok' }],
      href: `/v1/runs/${first}`,
    },
  ]);
});

test('a run leaves the list when all its calls are decided, when it is cancelled, and when it ends', async () => {
  const world = await clientWorld();
  const { mill, redis, keys } = world;
  const [decided, cancelled, partial, ended] = [
    await suspendedRun(world, [call('c1')]),
    await suspendedRun(world, [call('c1')]),
    await suspendedRun(world, [call('c1'), call('c2')]),
    await suspendedRun(world, [call('c1')]),
  ];
  await decided.approve();
  await cancelled.cancel();
  await partial.approve({ calls: 'c1' });
  await new RunWriter(redis, keys, ended.runId, 2).end();
  const { approvals } = await mill.approvals();
  expect(approvals.map(({ runId, toolCallId }) => [runId, toolCallId])).toEqual([[partial.runId, 'c2']]);
  expect(await redis.zscore(keys.asking('default'), decided.runId)).toBeNull();
  expect(await redis.zscore(keys.asking('default'), cancelled.runId)).toBeNull();
});

test('an entry of a run that does not wait is taken off once it is old, not while the run is about to wait', async () => {
  const { mill, redis, keys } = await clientWorld();
  const [fresh, stale] = [await mill.enqueue(request), await mill.enqueue(request)];
  await redis.zadd(keys.asking('default'), Date.now(), fresh.runId, Date.now() - 61_000, stale.runId);
  expect((await mill.approvals()).approvals).toEqual([]);
  expect(await redis.zrange(keys.asking('default'), '0', '-1')).toEqual([fresh.runId]);
});

test('the list is narrowed by agent and by kind, and shows only runs of the own tenant', async () => {
  const world = await clientWorld();
  const { mill } = world;
  const one = await suspendedRun(world, [call('c1'), { kind: 'user_input', id: 'q1' }]);
  const two = await suspendedRun(world, [call('c1')], { agent: 'other' });
  const ids = async (query: Parameters<typeof mill.approvals>[0]) =>
    (await mill.approvals(query)).approvals.map(({ runId, toolCallId }) => `${runId} ${toolCallId}`);
  expect(await ids({ agent: 'other' })).toEqual([`${two.runId} c1`]);
  expect(await ids({ kind: 'user_input' })).toEqual([`${one.runId} q1`]);
  expect(await ids({ kind: 'unknown_outcome' })).toEqual([]);
  expect((await mill.forTenant('acme').approvals()).approvals).toEqual([]);
});

test('the oldest come first where that is asked for, over all pages, also when what was seen leaves meanwhile', async () => {
  const world = await clientWorld();
  const { mill, redis, keys } = world;
  const runs: { readonly runId: string }[] = [];
  for (let i = 0; i < 12; i++) runs.push(await suspendedRun(world, [call('c1')]));
  // Four each were asked in the same millisecond.
  for (const [i, { runId }] of runs.entries())
    await redis.zadd(keys.asking('default'), 1_767_225_600_000 + Math.floor(i / 4), runId);
  const seen: string[] = [];
  let cursor: string | undefined;
  do {
    const page = await mill.approvals({ order: 'oldest', limit: 3, ...(cursor !== undefined && { cursor }) });
    seen.push(...page.approvals.map(({ runId }) => runId));
    cursor = page.cursor;
    const last = page.approvals.at(-1);
    if (last) await mill.cancel(last.runId);
  } while (cursor !== undefined);
  const inOrder = [0, 4, 8].flatMap((at) =>
    runs
      .slice(at, at + 4)
      .map(({ runId }) => runId)
      .sort(),
  );
  expect(seen).toEqual(inOrder);
});

test('pages have every item once, also when runs were asked in the same millisecond and leave meanwhile', async () => {
  const world = await clientWorld();
  const { mill, redis, keys } = world;
  const runs = [];
  for (let i = 0; i < 120; i++) runs.push(await suspendedRun(world, [call('c1'), call('c2')]));
  for (const { runId } of runs) await redis.zadd(keys.asking('default'), 1_767_225_600_000, runId);
  const seen: string[] = [];
  let cursor: string | undefined;
  do {
    const page = await mill.approvals({ limit: 7, ...(cursor !== undefined && { cursor }) });
    expect(page.approvals.length).toBeLessThanOrEqual(8);
    seen.push(...page.approvals.map(({ runId, toolCallId }) => `${runId} ${toolCallId}`));
    cursor = page.cursor;
    const last = page.approvals.at(-1);
    if (last && seen.length % 16 === 0) await mill.cancel(last.runId);
  } while (cursor !== undefined);
  expect(seen.toSorted()).toEqual(runs.flatMap(({ runId }) => [`${runId} c1`, `${runId} c2`]).toSorted());
});

test.each([{ limit: 0 }, { limit: 101 }, { cursor: 'x' }, { kind: 'retry' }, { agent: '!' }])(
  'the query %o makes no sense',
  async (query) => {
    const { mill } = await clientWorld();
    expect(await codeOf(mill.approvals(query as object))).toBe('validation');
  },
);
