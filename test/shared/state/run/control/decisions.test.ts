import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { DevRedis } from '../../../../../src/producer/cli/stack/dev-redis.ts';
import { startScratchRedis } from '../../../../support/scratch-redis.ts';
import { redisError } from '../../../../../src/shared/state/errors.ts';
import { ask, decisionBy } from '../../../../contract/decisions.ts';
import { aCommit } from '../../../../contract/run-fixtures.ts';
import { claimed, seeded } from '../../../../contract/store-world.ts';
import { redisWaitsWorld } from '../../../../contract/waits-redis-world.ts';
import { testRedis } from '../../../../support/redis.ts';

type World = Awaited<ReturnType<typeof redisWaitsWorld>>;

/** A Redis of its own: these tests change its configuration. */
let server: DevRedis;

beforeAll(async () => {
  server = await startScratchRedis();
});

afterEach(async () => {
  const redis = await testRedis('work', server.url);
  await redis.config('SET', 'maxmemory', '0', 'min-replicas-to-write', '0');
});

afterAll(() => server.stop());

async function asking(world: World, ...calls: string[]): Promise<string> {
  const runId = await seeded(world);
  const { owner, seq } = await claimed(world, runId);
  const patch = {
    status: 'suspended',
    pending: calls.map((id) => ask(id, { approvers: id === 'c2' ? 2 : 1 })),
  } as const;
  await world.runs.commit({ runId, owner }, aCommit(seq, { patch, release: 'suspended' }));
  return runId;
}

/** Everything that is stored about a run. */
async function stored({ redis, keys }: World, runId: string) {
  return await Promise.all([
    redis.hgetall(keys.run(runId)),
    redis.lrange(keys.journal(runId), 0, -1),
    redis.xrange(keys.events(runId), '-', '+'),
    redis.xlen(keys.lifecycle),
    redis.hgetall(keys.decisions(runId)),
    redis.lrange(keys.decided(runId), 0, -1),
  ]);
}

const grant = (toolCallId: string) => decisionBy('kim', { approvals: [{ toolCallId, granted: true }] });

test.each([
  ['is out of memory', 'maxmemory'],
  ['has lost its replicas', 'min-replicas-to-write'],
])('a Redis that %s takes nothing of a decision, and all of it later', async (_, setting) => {
  const world = await redisWaitsWorld(server.url);
  const runId = await asking(world, 'c1', 'c2', 'c3');
  const before = await stored(world, runId);
  await world.redis.config('SET', setting, '1');
  for (const call of ['c1', 'c2']) {
    const refused: unknown = await world
      .decide(runId, grant(call))
      .catch((error: unknown) => redisError(error, 'decide'));
    expect(refused).toMatchObject({ code: 'queue_unavailable' });
  }
  await expect(world.waits.resume(runId, { summary: 'x' })).rejects.toMatchObject({ code: 'queue_unavailable' });
  expect(await stored(world, runId)).toEqual(before);

  await world.redis.config('SET', setting, '0');
  expect(await world.decide(runId, grant('c2'))).toEqual({ kind: 'recorded' });
  expect(await world.decide(runId, grant('c1'))).toMatchObject({ kind: 'resumed' });

  // The run is running; another decision meets a full Redis.
  const working = await stored(world, runId);
  await world.redis.config('SET', setting, '1');
  await expect(world.decide(runId, grant('c3'))).rejects.toThrow(/OOM|NOREPLICAS/);
  expect(await stored(world, runId)).toEqual(working);
});

test('a run is listed for the people of its tenant before it waits for them, and no other wait lists it', async () => {
  const world = await redisWaitsWorld(server.url);
  const { redis, keys, runs } = world;
  const runId = await seeded(world, { tenant: 'acme' });
  const { owner, seq } = await claimed(world, runId);
  const patch = { status: 'suspended', pending: [ask('c1')] } as const;
  const commit = aCommit(seq, { patch, release: 'suspended' });
  expect(await runs.commit({ runId, owner: 'another owner' }, commit)).toEqual({ kind: 'fenced' });
  expect(await redis.zcard(keys.asking('acme'))).toBe(1);
  await runs.commit({ runId, owner }, commit);
  expect(await redis.zrange(keys.asking('acme'), '0', '-1', 'WITHSCORES')).toEqual([
    runId,
    String(Date.parse(ask('c1').requestedAt)),
  ]);
  expect(await redis.smembers(keys.tenantsAsking)).toEqual(['acme']);

  const limited = await seeded(world, { tenant: 'acme' });
  const claim = await claimed(world, limited);
  const turn = { status: 'suspended', pending: [ask('openai:m', { kind: 'provider_limit' })] } as const;
  const ownership = { runId: limited, owner: claim.owner };
  await runs.commit(ownership, aCommit(claim.seq, { patch: turn, release: 'suspended' }));
  expect(await redis.zcard(keys.asking('acme'))).toBe(1);
});

test('many large decisions are one step', async () => {
  const world = await redisWaitsWorld(server.url);
  const calls = Array.from({ length: 200 }, (_, i) => `c1_${i}`);
  const runId = await asking(world, ...calls);
  const updatedArgs = { text: 'x]"\\'.repeat(2_000), empty: [] };
  const approvals = calls.map((toolCallId) => ({ toolCallId, granted: true, updatedArgs }));
  expect(await world.decide(runId, decisionBy('kim', { approvals }))).toMatchObject({ kind: 'resumed' });
  const { entries } = await claimed(world, runId, { segment: 1 });
  const last = entries.at(-1);
  expect(last?.t === 'decided' && last.decisions?.map((each) => each.kind === 'approval' && each.updatedArgs)).toEqual(
    calls.map(() => updatedArgs),
  );
});
