import { expect, test } from 'vitest';
import { clientWorld, codeOf, request } from '../cli/options/client.ts';
import type { RunError } from '../../../src/shared/base/errors.ts';

/** A world whose runs have these ids, the oldest first. */
async function worldWith(ids: readonly string[], tenant = 'default') {
  const world = await clientWorld();
  for (const [index, runId] of ids.entries()) {
    const run = await world.mill.enqueue(request);
    await world.redis.rename(world.keys.run(run.runId), world.keys.run(runId));
    await world.redis.hset(world.keys.run(runId), { runId, tenant });
    await world.redis.zrem(world.keys.index('default'), run.runId);
    await world.redis.zadd(world.keys.index(tenant), Date.now() + index, runId);
  }
  return world;
}

const one = '01K9Z5N3T8R6V2X4B7C1D0E9FG';
const two = '01K9Z5N3T8AAAAAAAAAAAAAAAA';
const other = '7ZZZ5N3T8R6V2X4B7C1D0E9FGH';

test('the beginning of an id finds its run, in any case of letters', async () => {
  const { mill } = await worldWith([one, two, other]);
  expect(await mill.findRunId('7ZZZ')).toBe(other);
  expect(await mill.findRunId('01k9z5n3t8r')).toBe(one);
  expect(await mill.findRunId(two)).toBe(two);
  expect(await mill.findRunId(one.toLowerCase())).toBe(one);
});

test('a beginning of several runs is refused, and names them, the newest first', async () => {
  const { mill } = await worldWith([one, two, other]);
  const error = await mill.findRunId('01K9').then(
    () => undefined,
    (thrown: unknown) => thrown as RunError,
  );
  expect(error?.code).toBe('validation');
  expect(error?.message).toMatch(
    /^2 runs begin with 01K9; give more of the id:\n {2}01K9Z5N3T8A\w+ {2}queued {2}support {2}/,
  );
  expect(error?.details).toMatchObject([{ runId: two, status: 'queued', agent: 'support' }, { runId: one }]);
});

test('of many runs that begin alike only the newest are named', async () => {
  const ids = Array.from({ length: 60 }, (_, i) => `03${String(i).padStart(24, '0')}`);
  const { mill } = await worldWith(ids);
  const error = await mill.findRunId('0300').then(
    () => undefined,
    (thrown: unknown) => thrown as RunError,
  );
  expect(error?.message).toContain('50 runs or more begin with 0300');
  expect(error?.message.split('\n')).toHaveLength(7);
  expect(error?.message).toMatch(/\n {2}…$/);
  const details = (error?.details ?? []) as readonly { readonly runId: string }[];
  expect([details.length, details[0]?.runId]).toEqual([50, ids.at(-1)]);
});

test('runs that have expired and runs of other tenants are not found', async () => {
  const { mill, redis, keys } = await worldWith([one, two]);
  await redis.del(keys.run(two));
  expect(await mill.findRunId('01K9')).toBe(one);
  const foreign = await worldWith([other], 'acme');
  expect(await codeOf(foreign.mill.findRunId('7ZZZ'))).toBe('run_not_found');
  // Not even where the index of this tenant has it.
  await foreign.redis.zadd(foreign.keys.index('default'), Date.now(), other);
  expect(await codeOf(foreign.mill.findRunId('7ZZZ'))).toBe('run_not_found');
});

test.each([
  ['01K', 'validation'],
  ['7Q7Q', 'run_not_found'],
  ['run-7', 'run_not_found'],
  ['01K9*', 'invalid_id'],
  ['', 'invalid_id'],
])('%j answers %s', async (beginning, code) => {
  const { mill } = await worldWith([one]);
  expect(await codeOf(mill.findRunId(beginning))).toBe(code);
});

test('a run is found among many', async () => {
  const { mill, redis, keys } = await worldWith([one]);
  const many = Array.from({ length: 12_000 }, (_, i) => [String(i), `02${String(i).padStart(24, '0')}`]).flat();
  await redis.zadd(keys.index('default'), ...many);
  expect(await mill.findRunId('01K9Z5')).toBe(one);
});
