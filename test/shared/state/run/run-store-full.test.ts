import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { DevRedis } from '../../../../src/producer/cli/stack/dev-redis.ts';
import { startScratchRedis } from '../../../support/scratch-redis.ts';
import { redisWorld, type RedisWorld } from '../../../contract/redis-world.ts';
import { claimed, seeded } from '../../../contract/store-world.ts';
import {
  aClaim,
  aCommit,
  aTerminalCommit,
  complete,
  delta,
  agentStarted,
  opening,
  recovering,
} from '../../../contract/run-fixtures.ts';
import { testRedis } from '../../../support/redis.ts';

/** A Redis of its own: these tests change its configuration and count its commands. */
let server: DevRedis;

beforeAll(async () => {
  server = await startScratchRedis();
});

afterEach(async () => {
  const redis = await testRedis('work', server.url);
  await redis.config('SET', 'maxmemory', '0', 'min-replicas-to-write', '0');
});

afterAll(() => server.stop());

/** Everything that is stored about a run. */
async function stored({ redis, keys }: RedisWorld, runId: string) {
  return await Promise.all([
    redis.hgetall(keys.run(runId)),
    redis.lrange(keys.journal(runId), 0, -1),
    redis.xrange(keys.events(runId), '-', '+'),
    redis.xlen(keys.lifecycle),
  ]);
}

const refusals = [
  ['is out of memory', ['maxmemory', '1']],
  ['has lost its replicas', ['min-replicas-to-write', '1']],
] as const;

test.each(refusals)(
  'a Redis that %s leaves nothing half-written, and the same writes succeed later',
  async (_, config) => {
    const world = await redisWorld(server.url);
    const { runs, redis } = world;
    const [runId, other] = [await seeded(world), await seeded(world)];
    const [{ owner }, { owner: otherOwner }] = [await claimed(world, runId), await claimed(world, other)];
    const live = await world.live(runId);
    const claim = aClaim(other, { jobTry: 2 });
    const writes = [
      () => runs.commit({ runId, owner }, aCommit(3)),
      () => runs.flush({ runId, owner }, 3, [delta(runId, 'a'), delta(runId, 'b')]),
      () => runs.commit({ runId, owner }, middle),
      () => runs.commit({ runId, owner }, last),
      () => runs.claim(claim, opening(other), recovering(other)),
    ];
    const middle = aCommit(5, { entries: [agentStarted('m')], events: [complete(runId, 'ab')], patch: { steps: 3 } });
    const last = aTerminalCommit(runId, 6);
    const before = [await stored(world, runId), await stored(world, other)];

    await redis.config('SET', ...config);
    for (const write of writes) await expect(write()).rejects.toMatchObject({ code: 'queue_unavailable' });
    expect(
      await runs.claim({ ...claim, crashLimit: 1 }, opening(other), recovering(other)).catch((e: unknown) => e),
    ).toMatchObject({ code: 'queue_unavailable' });
    expect([await stored(world, runId), await stored(world, other)]).toEqual(before);
    expect(live).toEqual([]);

    await redis.config('SET', config[0], '0');
    const kinds: string[] = [];
    for (const write of writes) kinds.push((await write()).kind);
    expect(kinds).toEqual(['ok', 'ok', 'ok', 'ok', 'claimed']);
    expect((await world.events(runId)).map((event) => event.sequenceNumber)).toEqual([1, 2, 3, 4, 5, 6, 7]);
    expect(await runs.commit({ runId: other, owner: otherOwner }, aCommit(3))).toEqual({ kind: 'fenced' });
  },
);

/** How often Redis ran a command since the last reset, those inside scripts included. */
async function calls(world: RedisWorld, command: string): Promise<number> {
  const stats = await world.redis.info('commandstats');
  return Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(stats)?.[1] ?? 0);
}

test('the flushes of one tick leave in calls of at most 64 runs', async () => {
  const world = await redisWorld(server.url);
  const runIds = await Promise.all(Array.from({ length: 130 }, () => seeded(world)));
  const owners = await Promise.all(runIds.map((runId) => claimed(world, runId)));
  const flushAll = async (seq: number) => {
    const each = runIds.map((runId, index) =>
      world.runs.flush({ runId, owner: owners[index]?.owner ?? '' }, seq, [delta(runId, 'x')]),
    );
    expect((await Promise.all(each)).every((reply) => reply.kind === 'ok')).toBe(true);
  };
  await flushAll(3);
  await world.redis.config('RESETSTAT');
  await flushAll(4);
  expect(await calls(world, 'evalsha')).toBe(3);
  expect(await calls(world, 'xadd')).toBe(130);
  expect(await calls(world, 'publish')).toBe(130);
});

test('the flushes of one tick leave in calls of at most a megabyte', async () => {
  const world = await redisWorld(server.url);
  const runIds = await Promise.all(Array.from({ length: 3 }, () => seeded(world)));
  const owners = await Promise.all(runIds.map((runId) => claimed(world, runId)));
  const text = 'x'.repeat(500_000);
  const flushAll = (seq: number) =>
    Promise.all(
      runIds.map((runId, index) =>
        world.runs.flush({ runId, owner: owners[index]?.owner ?? '' }, seq, [delta(runId, text)]),
      ),
    );
  await flushAll(3);
  await world.redis.config('RESETSTAT');
  expect((await flushAll(4)).map((reply) => reply.kind)).toEqual(['ok', 'ok', 'ok']);
  expect(await calls(world, 'evalsha')).toBe(2);
});

test('a commit costs one read beside its writes, and a claim two', async () => {
  const world = await redisWorld(server.url);
  const run = async (runId: string) => {
    const { owner } = await claimed(world, runId);
    await world.runs.commit(
      { runId, owner },
      aCommit(3, { entries: [agentStarted('m')], events: [complete(runId, 'x')] }),
    );
  };
  await run(await seeded(world));
  const runId = await seeded(world);
  await world.redis.config('RESETSTAT');
  await run(runId);
  const commands = ['evalsha', 'hgetall', 'xrevrange', 'lrange', 'hmget', 'hget', 'xadd', 'publish', 'hset', 'rpush'];
  const counts = await Promise.all(commands.map((command) => calls(world, command)));
  // Three events and one of them for the lifecycle stream; a live and a firehose message for each of the two calls.
  expect(Object.fromEntries(commands.map((command, index) => [command, counts[index]]))).toEqual({
    evalsha: 2,
    hgetall: 1,
    xrevrange: 1,
    lrange: 0,
    hmget: 1,
    hget: 0,
    xadd: 4,
    publish: 4,
    hset: 2,
    rpush: 1,
  });
});
