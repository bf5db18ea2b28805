import { lookAfterMs } from '../../src/shared/state/thread/lock.ts';
import { expect, test } from 'vitest';
import { inMemoryThreads } from '../../src/worker/local/stores/in-memory-threads.ts';
import { seeded } from '../support/seeded.ts';
import { threadsContract } from './threads.ts';
import { threadsLists } from './threads-lists.ts';
import { listThreads, removeThread } from '../../src/shared/state/thread/list.ts';
import { redisThreads } from '../../src/shared/state/thread/threads.ts';
import { redisThreadsWorld, type RedisThreadsWorld } from './threads-redis-world.ts';
import { answers, aRun, asks, enter, acquire, summary, tenant, type ThreadsWorld } from './threads-world.ts';
import { rounds } from '../support/lane.ts';

threadsContract('Redis', () => redisThreadsWorld());
threadsLists(() => redisThreadsWorld());

test('Redis and the in-memory form answer alike, whatever is done in whatever order', async () => {
  const random = seeded();
  const redis = await redisThreadsWorld();
  const memory: ThreadsWorld = { clock: redis.clock, threads: inMemoryThreads(redis.clock) };
  const both = async <T>(act: (world: ThreadsWorld) => Promise<T>): Promise<T> => {
    const [one, two] = await Promise.all([redis, memory].map((world) => act(world)));
    expect(one).toEqual(two);
    return one as T;
  };
  const policies = ['queue', 'queue', 'reject', 'interrupt', 'rollback'] as const;
  const fences = new Map<string, number>();
  for (let step = 0; step < rounds({ fast: 200, all: 600 }); step++) {
    const run = `r${random.below(8)}`;
    const writer = { ...aRun(run), fence: Math.max(1, (fences.get(run) ?? 1) - random.below(2)) };
    const policy = policies[random.below(policies.length)] as (typeof policies)[number];
    const entries = [
      asks(run, 'hi'),
      answers(run, `${step}`),
      ...(random.below(5) === 0 ? [summary(run, 'S', step)] : []),
    ];
    // Most of the time the last claim acts, and sometimes one that was lost long ago.
    const epoch = random.below(4) === 0 ? random.below(step + 1) : step;
    const op = `op${step - random.below(2)}`;
    redis.clock.jump(random.below(40) === 0 ? 3_700_000 : 1);
    switch (random.below(6)) {
      case 0:
        await both((world) => enter(world, run, policy));
        break;
      case 1: {
        const acquired = await both((world) => world.threads.acquire({ ...aRun(run), epoch }));
        if (acquired.kind === 'acquired') fences.set(run, acquired.fence);
        break;
      }
      case 2:
        await both((world) => world.threads.append(writer, op, entries, { title: `${step}` }));
        break;
      case 3:
        await both((world) => world.threads.suspend(writer));
        break;
      case 4:
        if (random.below(2) === 0) {
          const ended = random.below(4) === 0 ? undefined : epoch;
          await both((world) => world.threads.leave(tenant, 't1', run, ended));
        }
        break;
      default:
        await both((world) => world.threads.due(10));
    }
    const known = await both((world) => world.threads.get(tenant, 't1').catch(() => undefined));
    if (!known) continue;
    await both((world) => world.threads.context(tenant, 't1'));
    await both((world) => world.threads.read(tenant, 't1', { limit: 1_000 }));
  }
});

test('nothing of a thread expires but the list of runs that left it', async () => {
  const { redis, keys, ...world } = await redisThreadsWorld();
  await world.threads.append(await acquire(world, 'a'), 'op', [asks('a', 'hi')]);
  await enter(world, 'b');
  await world.threads.leave(tenant, 't1', 'c');
  const ttls = await Promise.all(
    (['manifest', 'waiters', 'log', 'once', 'ops', 'claims', 'left'] as const).map((part) =>
      redis.ttl(keys.thread(tenant, 't1', part)),
    ),
  );
  expect(ttls.slice(0, 6)).toEqual([-1, -1, -1, -1, -1, -1]);
  expect(ttls[6]).toBeGreaterThan(3_500);
});

test('of the runs that left a thread the last 1,000 are known', async () => {
  const { redis, keys, ...world } = await redisThreadsWorld();
  await Promise.all(Array.from({ length: 1_010 }, (_, i) => world.threads.leave(tenant, 't1', `r${i}`)));
  expect(await redis.zcard(keys.thread(tenant, 't1', 'left'))).toBe(1_000);
});

test('an entry of a later version is refused by name, and so is one that cannot be read', async () => {
  const { redis, keys, ...world } = await redisThreadsWorld();
  await acquire(world, 'a');
  await redis.xadd(keys.thread(tenant, 't1', 'log'), '1-0', 'e', '{"v":2,"t":"message"}');
  await expect(world.threads.context(tenant, 't1')).rejects.toMatchObject({
    code: 'run_state_version_unsupported',
    message: 'entry 1 of thread t1 has version 2',
  });
  await redis.xadd(keys.thread(tenant, 't2', 'log'), '1-0', 'e', '{"v":1,"t":"song"}');
  await acquire(world, 'a', 't2');
  await expect(world.threads.read(tenant, 't2', { limit: 1 })).rejects.toMatchObject({ code: 'run_state_malformed' });
  await redis.hset(keys.thread(tenant, 't2', 'manifest'), 'v', '2');
  await expect(world.threads.get(tenant, 't2')).rejects.toMatchObject({ code: 'run_state_version_unsupported' });
});

test('a thread that vanished without its list entry leaves the list once it is old', async () => {
  const { redis, keys, clock, space } = await redisThreadsWorld();
  await redis.zadd(keys.threads(tenant), clock.now(), 'ghost');
  expect(await listThreads(space, tenant, { limit: 5 })).toEqual({ threads: [] });
  expect(await redis.zcard(keys.threads(tenant))).toBe(1);
  clock.jump(600_000);
  await listThreads(space, tenant, { limit: 5 });
  expect(await redis.zcard(keys.threads(tenant))).toBe(0);
});

/** Where the threads of a world are, and a command is only sent once something else has happened. */
function overtaken(
  { redis, keys, clock }: RedisThreadsWorld,
  command: 'evalsha' | 'zrem',
  first: () => Promise<unknown>,
) {
  const late = new Proxy(redis, {
    get(target, name: string) {
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== 'function') return value;
      const send = (...args: unknown[]): unknown => Reflect.apply(value, target, args);
      return name === command ? async (...args: unknown[]) => (await first(), await send(...args)) : send;
    },
  });
  return { redis: late, keys, clock, cluster: false };
}

test('a free thread leaves the list of entered ones, unless a run enters it meanwhile', async () => {
  const world = await redisThreadsWorld();
  const { redis, keys, clock, threads } = world;
  await threads.enter(aRun('a'));
  await threads.leave(tenant, 't1', 'a');
  clock.jump(lookAfterMs);
  expect((await threads.due(5)).threads).toEqual([]);
  expect(await redis.zcard(keys.threadsEntered)).toBe(1);
  clock.jump(600_000);
  await redisThreads(
    overtaken(world, 'evalsha', () => threads.enter(aRun('b'))),
    async () => {},
  ).due(5);
  clock.jump(lookAfterMs);
  expect((await threads.due(5)).threads).toMatchObject([{ lockOwner: 'b' }]);
  await threads.leave(tenant, 't1', 'b');
  clock.jump(600_000);
  await threads.due(5);
  expect(await redis.exists(keys.threadsEntered, keys.threadChecks)).toBe(0);
});

test('a thread that is made again while it is deleted stays listed', async () => {
  const world = await redisThreadsWorld();
  await acquire(world, 'a');
  await world.threads.leave(tenant, 't1', 'a');
  const late = overtaken(world, 'zrem', () => world.threads.enter(aRun('b')));
  await removeThread(late, { tenant, threadId: 't1' });
  expect((await listThreads(world.space, tenant, { limit: 5 })).threads).toMatchObject([
    { threadId: 't1', lockOwner: 'b' },
  ]);
});

test('entries before the last summary are not even read', async () => {
  const { redis, keys, ...world } = await redisThreadsWorld();
  const lock = await acquire(world, 'a');
  await redis.xadd(keys.thread(tenant, 't1', 'log'), '1-0', 'e', 'unreadable');
  await redis.hset(keys.thread(tenant, 't1', 'manifest'), 'seq', 1);
  await world.threads.append(lock, 'op', [summary('a', 'S', 1), answers('a', 'yes')]);
  expect((await world.threads.context(tenant, 't1')).messages.map(({ seq }) => seq)).toEqual([3]);
});
