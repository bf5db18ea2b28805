import { expect, test } from 'vitest';
import type { ListQuery } from '../../../src/producer/client/list-runs.ts';
import type { Millrace } from '../../../src/producer/client/millrace.ts';
import { createRuns, newRun } from '../../../src/shared/state/run/create-runs.ts';
import { lineage, runRequest } from '../../../src/shared/contract/run.ts';
import { runKeySpace } from '../../support/run-key-space.ts';
import { clientWorld, codeOf, request } from '../cli/options/client.ts';

/** All pages of a query. */
async function pages(mill: Millrace, query: ListQuery): Promise<string[][]> {
  const found: string[][] = [];
  for (let cursor: string | undefined; ;) {
    const page = await mill.list({ ...query, ...(cursor !== undefined && { cursor }) });
    found.push(page.runs.map((run) => run.runId));
    if (page.cursor === undefined) return found;
    expect(page.cursor, 'the next page begins elsewhere').not.toBe(cursor);
    cursor = page.cursor;
  }
}

async function withRuns(count: number) {
  const world = await clientWorld();
  const answers = await world.mill.enqueueMany(
    Array.from({ length: count }, (_, i) => {
      const agent = i % 2 ? 'odd' : 'even';
      return { agent, input: 'x', thread: `${agent}-${i % 3}` };
    }),
  );
  const runIds = answers.map((answer) => ('runId' in answer ? answer.runId : 'refused'));
  // One creation time each, so that the order of the test is the order of the list.
  for (const [i, runId] of runIds.entries()) await world.redis.zadd(world.keys.index('default'), 1_000_000 + i, runId);
  return { ...world, runIds, newestFirst: runIds.toReversed() };
}

test('runs are listed newest first', async () => {
  const { mill, newestFirst } = await withRuns(5);
  const { runs, cursor } = await mill.list();
  expect(runs.map((run) => run.runId)).toEqual(newestFirst);
  expect(cursor).toBeUndefined();
  expect(runs[0]).toMatchObject({ status: 'queued', agent: 'even', thread: 'even-1' });
});

test('a list reads neither what runs were asked nor what they began with', async () => {
  const { mill, redis, keys } = await clientWorld();
  const space = runKeySpace(redis, keys);
  const metadata = { shop: 'north' };
  await mill.enqueue({ ...request, metadata, batch: 'b', executionId: 'e', thread: 't', deadlineMs: 60_000 });
  await mill.task({ adapter: 'tidy-up', input: { shelf: 7 } });
  const first = newRun(runRequest.parse(request), { tenant: 'default' }, 'nonce');
  const history = [{ role: 'user' as const, content: 'long ago' }];
  const parent = lineage.parse({ runId: first.runId, depth: 2, ancestors: [{ much: 'text' }], history });
  const asked = runRequest.parse({ ...request, metadata });
  await createRuns([{ ...newRun(asked, { tenant: 'default' }, 'other'), parent }], 'default', space);
  const { runs } = await mill.list();
  expect(runs).toHaveLength(3);
  const alone = await Promise.all(runs.map(async ({ runId }) => ({ ...(await mill.get(runId)), request: undefined })));
  expect(runs).toEqual(alone);
  for (const { runId } of runs) await redis.hdel(keys.run(runId), 'request', 'parent');
  expect((await mill.list()).runs).toEqual(alone);
});

test('a list shows runs of versions that kept all of it in one hash', async () => {
  const { mill, redis, keys, newestFirst } = await withRuns(2);
  const { runs } = await mill.list();
  for (const runId of newestFirst) await redis.hdel(keys.run(runId), 'listedRequest', 'listedParent');
  expect((await mill.list()).runs).toEqual(runs);
});

test('pages follow each other without a gap or a repeat, while new runs arrive and old ones vanish', async () => {
  const { mill, redis, keys, newestFirst } = await withRuns(7);
  const first = await mill.list({ limit: 3 });
  await mill.enqueue(request);
  await redis.zrem(keys.index('default'), newestFirst[2] as string);
  const second = await mill.list({ limit: 3, ...(first.cursor !== undefined && { cursor: first.cursor }) });
  expect([...first.runs, ...second.runs].map((run) => run.runId)).toEqual(newestFirst.slice(0, 6));
});

test.each([
  [100, { limit: 100 }],
  [200, { limit: 100 }],
  [100, { limit: 50 }],
  [100, { status: 'failed', limit: 100 }],
] satisfies [number, ListQuery][])('a list of %i runs has an end, also by %j', async (count, query) => {
  const { mill, newestFirst } = await withRuns(count);
  const found = (await pages(mill, query)).flat();
  expect(found).toEqual('status' in query ? [] : newestFirst);
});

test('runs of one millisecond are paged without a gap or a repeat, even when the last one of a page vanishes', async () => {
  const { mill, redis, keys, runIds } = await withRuns(7);
  for (const runId of runIds) await redis.zadd(keys.index('default'), 5_000_000, runId);
  const order = runIds.toSorted().toReversed();
  const first = await mill.list({ limit: 3 });
  await redis.zrem(keys.index('default'), order[2] as string);
  const second = await mill.list({ limit: 10, ...(first.cursor !== undefined && { cursor: first.cursor }) });
  expect([...first.runs, ...second.runs].map((run) => run.runId)).toEqual(order);
});

test('a list can be narrowed to a status, an agent and a thread', async () => {
  const { mill, redis, keys, newestFirst, runIds } = await withRuns(12);
  await redis.hset(keys.run(runIds[3] as string), 'status', 'failed');
  expect((await mill.list({ status: 'failed' })).runs.map((run) => run.runId)).toEqual([runIds[3]]);
  expect((await mill.list({ agent: 'odd' })).runs).toHaveLength(6);
  expect((await mill.list({ agent: 'odd', thread: 'odd-0' })).runs.map((run) => run.runId)).toEqual([
    runIds[9],
    runIds[3],
  ]);
  expect((await pages(mill, { agent: 'even', limit: 2 })).flat()).toEqual(newestFirst.filter((_, i) => i % 2 === 1));
});

test('a list can be narrowed to a batch', async () => {
  const { mill } = await clientWorld();
  const inBatch = await mill.enqueue({ ...request, batch: 'nightly' });
  await mill.enqueue({ ...request, batch: 'other' });
  await mill.enqueue(request);
  expect((await mill.list({ batch: 'nightly' })).runs.map(({ runId }) => runId)).toEqual([inBatch.runId]);
});

test('a list can be narrowed to a time, whose beginning counts and whose end does not, over pages', async () => {
  const { mill, redis, keys, runIds } = await withRuns(10);
  const start = Date.parse('2026-11-20T09:00:00Z');
  for (const [index, runId] of runIds.entries()) await redis.zadd(keys.index('default'), start + index * 1_000, runId);
  const at = (index: number) => new Date(start + index * 1_000).toISOString();
  const within = async (query: ListQuery) => (await pages(mill, { limit: 2, ...query })).flat();
  expect(await within({ after: at(3), before: at(7) })).toEqual(runIds.slice(3, 7).toReversed());
  expect(await within({ after: at(8) })).toEqual(runIds.slice(8).toReversed());
  expect(await within({ before: '2026-11-20T11:00:02+02:00' })).toEqual(runIds.slice(0, 2).toReversed());
  expect(await within({ after: at(11) })).toEqual([]);
  expect(await codeOf(mill.list({ after: 'yesterday' }))).toBe('validation');
});

test('one call looks at a bounded number of runs and says where to go on', async () => {
  const { mill, redis, keys } = await clientWorld();
  await mill.enqueue({ ...request, agent: 'rare' });
  await mill.enqueueMany(Array.from({ length: 2_100 }, () => request));
  const [rare] = (await mill.list({ agent: 'rare' })).runs;
  expect(rare).toBeUndefined();
  expect((await pages(mill, { agent: 'rare' })).flat()).toHaveLength(1);
  expect(await redis.zcard(keys.index('default'))).toBe(2_101);
});

test('entries leave the index once the archive cannot have their runs for long, others without a record stay', async () => {
  const { mill, redis, keys, runIds } = await withRuns(3);
  await redis.del(keys.run(runIds[1] as string));
  await redis.zadd(keys.index('default'), Date.now(), '01HZZZZZZZZZZZZZZZZZZZZZZZ');
  expect((await mill.list()).runs.map((run) => run.runId)).toEqual([runIds[2], runIds[0]]);
  expect(await redis.zrange(keys.index('default'), 0, '-1')).toEqual([
    runIds[0],
    runIds[2],
    '01HZZZZZZZZZZZZZZZZZZZZZZZ',
  ]);
});

test('a query that makes no sense is refused', async () => {
  const { mill } = await clientWorld();
  const wrong = [
    { cursor: 'x' },
    { cursor: '1-{a}' },
    { limit: 0 },
    { limit: 101 },
    { status: 'lost' },
    { agent: '*' },
  ];
  for (const query of wrong) expect(await codeOf(mill.list(query as ListQuery))).toBe('validation');
});
