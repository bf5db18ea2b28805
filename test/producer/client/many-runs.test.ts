import { expect, test } from 'vitest';
import { clientWorld, codeOf, request, type ClientWorld } from '../cli/options/client.ts';

/** Runs with what filters ask about: every other one of the shop `north`, every third one in the batch `nightly`. */
async function withRuns(count: number): Promise<ClientWorld & { readonly runIds: readonly string[] }> {
  const world = await clientWorld();
  const answers = await world.mill.enqueueMany(
    Array.from({ length: count }, (_, i) => ({
      ...request,
      metadata: { shop: i % 2 === 0 ? 'north' : 'south', number: String(i) },
      ...(i % 3 === 0 && { batch: 'nightly' }),
    })),
  );
  return { ...world, runIds: answers.map((answer) => ('runId' in answer ? answer.runId : 'refused')) };
}

async function fail({ redis, keys }: ClientWorld, runId: string, code: string): Promise<void> {
  const error = JSON.stringify({ code, message: 'so it went', retryable: false });
  await redis.hset(keys.run(runId), { status: 'failed', endedAt: new Date().toISOString(), error });
}

test('runs are counted and listed by metadata, batch and the code of their error', async () => {
  const world = await withRuns(12);
  const { mill, runIds } = world;
  await fail(world, runIds[0] as string, 'internal');
  await fail(world, runIds[6] as string, 'provider_unavailable');
  expect(await mill.count()).toEqual({ total: 12, byStatus: { queued: 10, failed: 2 }, complete: true });
  expect(await mill.count({ metadata: { shop: 'north' }, batch: 'nightly' })).toEqual({
    total: 2,
    byStatus: { failed: 2 },
    complete: true,
  });
  expect(await mill.count({ errorCode: 'internal' })).toMatchObject({ total: 1 });
  const { runs } = await mill.list({ metadata: { shop: 'south', number: '3' } });
  expect(runs.map(({ runId }) => runId)).toEqual([runIds[3]]);
  expect((await mill.list({ errorCode: 'provider_unavailable' })).runs.map(({ runId }) => runId)).toEqual([runIds[6]]);
  expect((await mill.list({ metadata: { shop: 'nor' } })).runs, 'a value fits as a whole').toEqual([]);
  expect((await mill.list({ metadata: { constructor: 'x' } })).runs).toEqual([]);
});

test('runs are counted, listed and cancelled by what they have cost at least', async () => {
  const { mill, redis, keys, runIds } = await withRuns(4);
  const [first = '', second = ''] = runIds;
  await redis.hset(keys.run(first), 'costMicrocents', 5_000);
  await redis.hset(keys.run(second), 'costMicrocents', 4_999);
  expect(await mill.count({ minCostMicrocents: 5_000 })).toMatchObject({ total: 1 });
  expect((await mill.list({ minCostMicrocents: 5_000 })).runs.map(({ runId }) => runId)).toEqual([first]);
  expect(await mill.cancelMany({ minCostMicrocents: 5_000 })).toMatchObject({ matched: 1, done: 1 });
});

test('a run whose request or error cannot be read fits nothing that is asked about them, and hides no other', async () => {
  const { mill, redis, keys, runIds } = await withRuns(4);
  await redis.hset(keys.run(runIds[0] as string), 'listedRequest', '{torn', 'error', '{torn');
  expect(await mill.count({ metadata: { shop: 'north' } })).toMatchObject({ total: 1 });
  expect(await mill.count({ errorCode: 'internal' })).toMatchObject({ total: 0 });
  expect(await mill.count({ agent: request.agent })).toMatchObject({ total: 4 });
});

test('open runs that a filter fits are cancelled, and no others', async () => {
  const { mill, runIds } = await withRuns(9);
  const answer = await mill.cancelMany({ batch: 'nightly', reason: 'wrong file' });
  expect(answer).toEqual({ matched: 3, done: 3, failures: [] });
  expect(await mill.count()).toMatchObject({ byStatus: { cancelled: 3, queued: 6 } });
  expect(await mill.get(runIds[3] as string)).toMatchObject({ status: 'cancelled' });
  expect(await mill.cancelMany({ batch: 'nightly' }), 'they have ended').toMatchObject({ matched: 0, done: 0 });
});

test('a limit leaves the rest for the next call, which says so', async () => {
  const { mill } = await withRuns(7);
  const asked = { metadata: { shop: 'north' }, limit: 3 };
  const { cursor, ...first } = await mill.cancelMany(asked);
  expect(first).toEqual({ matched: 3, done: 3, failures: [] });
  const second = await mill.cancelMany({ ...asked, cursor });
  expect(second).toEqual({ matched: 1, done: 1, failures: [] });
});

test('a run that is only asked to stop is not found again from the cursor on', async () => {
  const { mill, redis, keys, runIds } = await withRuns(4);
  for (const runId of runIds) await redis.hset(keys.run(runId), { status: 'running', worker: 'w', owner: 'o' });
  const { cursor, ...first } = await mill.cancelMany({ all: true, limit: 2 });
  expect(first).toMatchObject({ matched: 2, done: 2 });
  const second = await mill.cancelMany({ all: true, limit: 5, cursor });
  expect(second).toMatchObject({ matched: 2, done: 2 });
  expect(await redis.scard(keys.cancels)).toBe(4);
});

test('nothing is cancelled without a filter, unless all is meant', async () => {
  const { mill } = await withRuns(3);
  expect(await codeOf(mill.cancelMany({}))).toBe('validation');
  expect(await codeOf(mill.cancelMany({ agent: undefined }))).toBe('validation');
  expect(await codeOf(mill.cancelMany({ status: 'failed' }))).toBe('validation');
  expect(await codeOf(mill.cancelMany({ shop: 'north' } as never))).toBe('validation');
  expect(await mill.count()).toMatchObject({ byStatus: { queued: 3 } });
  expect(await mill.cancelMany({ all: true })).toMatchObject({ done: 3 });
});

test('no filter reaches the runs of another tenant', async () => {
  const { mill } = await withRuns(5);
  const other = mill.forTenant('other');
  expect(await other.cancelMany({ all: true })).toMatchObject({ matched: 0 });
  expect(await other.count({ batch: 'nightly' })).toMatchObject({ total: 0 });
  expect(await other.redrive({ batch: 'nightly' })).toMatchObject({ redriven: [] });
  expect(await mill.count()).toMatchObject({ byStatus: { queued: 5 } });
});

test('failed runs that a filter fits are redriven', async () => {
  const world = await withRuns(6);
  const { mill, runIds } = world;
  for (const runId of runIds) await fail(world, runId, 'internal');
  const { redriven, more } = await mill.redrive({ metadata: { shop: 'south' } });
  expect([new Set(redriven), more]).toEqual([new Set([runIds[1], runIds[3], runIds[5]]), false]);
  expect(await codeOf(mill.redrive({ runId: runIds[0] as string, batch: 'nightly' }))).toBe('validation');
  expect(await codeOf(mill.redrive({ status: 'completed' as never }))).toBe('validation');
});
