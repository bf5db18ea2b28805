import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { DevRedis } from '../../../../src/producer/cli/stack/dev-redis.ts';
import { startScratchRedis } from '../../../support/scratch-redis.ts';
import { tenantsOf } from '../../../../src/shared/contract/tenants.ts';
import { redisLedgerWorld, type RedisLedgerWorld } from '../../../contract/ledger-redis-world.ts';
import { someAccounts, ask, batch, capped, own, paid } from '../../../contract/ledger-world.ts';
import { testRedis } from '../../../support/redis.ts';

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

/** Everything that the ledger has stored. */
async function stored({ redis, keys }: RedisLedgerWorld): Promise<unknown> {
  const names = await redis.keys(`${keys.account('acme', '', '', '').replace(/:::$/, '')}*`);
  const read = async (name: string) =>
    (await redis.type(name)) === 'hash' ? await redis.hgetall(name) : await redis.sort(name, 'ALPHA');
  return Object.fromEntries(await Promise.all(names.sort().map(async (name) => [name, await read(name)])));
}

const refusals = [
  ['is out of memory', ['maxmemory', '1']],
  ['has lost its replicas', ['min-replicas-to-write', '1']],
] as const;

test.each(refusals)(
  'a Redis that %s leaves no money half-booked, and the same calls succeed later',
  async (_, config) => {
    const world = await redisLedgerWorld(tenantsOf({}), server.url);
    const { ledger, redis } = world;
    await world.setBudget('b1', 1_000);
    const accounts = capped(900, 'fail', { batch: 'b1' });
    const crashed = capped(900, 'fail', { batch: 'b1' });
    const waiter = someAccounts({ batch: 'b1' });
    for (const id of ['a', 'b']) await ledger.reserve(ask(accounts, id, 200));
    await ledger.reserve(ask(crashed, 'c', 200));
    const calls = [
      () => ledger.reserve(ask(accounts, 'd', 300)),
      () => ledger.reserve(ask(accounts, 'e', 850)),
      () => ledger.await(waiter, batch('b1'), 500),
      () => ledger.settle(paid(accounts, 'a', 150)),
      () => ledger.release(accounts, 'b'),
      () => ledger.writeOff(crashed),
      () => ledger.settle(paid(someAccounts(), 'free', 5)),
    ];
    const before = await stored(world);

    await redis.config('SET', ...config);
    for (const call of calls) await expect(call()).rejects.toMatchObject({ code: 'queue_unavailable' });
    expect(await stored(world)).toEqual(before);

    await redis.config('SET', config[0], '0');
    for (const call of calls) await call();
    expect(await world.view(own(accounts))).toMatchObject({ spentMicrocents: 150, reservedMicrocents: 300 });
    expect(await world.view(batch('b1'))).toMatchObject({ spentMicrocents: 350, reservedMicrocents: 300, waiting: 1 });
  },
);
