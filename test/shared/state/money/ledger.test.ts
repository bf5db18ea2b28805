import { expect, inject, onTestFinished, test, vi } from 'vitest';
import { silentLog } from '../../../../src/shared/base/log.ts';
import { tenantsOf } from '../../../../src/shared/contract/tenants.ts';
import { redisLedger } from '../../../../src/shared/state/money/ledger.ts';
import { redisLedgerWorld, type RedisLedgerWorld } from '../../../contract/ledger-redis-world.ts';
import {
  someAccounts,
  ask,
  batch,
  capped,
  own,
  paid,
  tenant,
  type AccountName,
} from '../../../contract/ledger-world.ts';
import { startRedisProxy } from '../../../support/redis-proxy.ts';
import { testRedis, until } from '../../../support/redis.ts';
import { seeded } from '../../../support/seeded.ts';

const dayS = 86_400;
const hourly = tenantsOf({
  default: { budget: { maxCostMicrocents: 1_000, window: 'hour', onExceed: 'fail', unpriced: 'allow' } },
});

/** Another ledger over the same accounts, on a connection of its own. */
async function another({ keys, clock }: RedisLedgerWorld, url?: string) {
  const redis = await testRedis('work', url);
  const options = { redis, keys, clock, log: silentLog, tenants: tenantsOf({}), costsRetentionDays: 30 };
  return redisLedger(options);
}

test('twenty clients that spend a batch at the same time never have more than its cap, and leave nothing held', async () => {
  const random = seeded();
  const world = await redisLedgerWorld();
  const cap = 20_000;
  await world.setBudget('b1', cap);
  let most = 0;
  const spend = async (client: number) => {
    const ledger = await another(world);
    for (let call = 0; ; call++) {
      const accounts = capped(3_000, 'fail', { batch: 'b1' });
      const id = `${client}-${call}`;
      const wanted = 50 + random.below(400);
      const reservation = await ledger.reserve(ask(accounts, id, wanted, { least: 1 }));
      const { spentMicrocents, reservedMicrocents } = await world.view(batch('b1'));
      most = Math.max(most, spentMicrocents + reservedMicrocents);
      if (reservation.kind === 'exceeded') return;
      if (reservation.kind === 'busy') continue;
      // Every fifth dies before it can settle; the next owner of its run counts what it reserved.
      if (random.below(5) === 0) await ledger.writeOff(accounts);
      else await ledger.settle(paid(accounts, id, random.below(reservation.amount + 1)));
    }
  };
  await Promise.all(Array.from({ length: 20 }, (_, client) => spend(client)));
  expect(most).toBeLessThanOrEqual(cap);
  expect(await world.view(batch('b1'))).toMatchObject({ spentMicrocents: cap, reservedMicrocents: 0 });
});

test('accounts are kept for as long as they can matter, and longer while a run waits', async () => {
  const world = await redisLedgerWorld(hourly);
  const { ledger, redis, keys } = world;
  const accounts = capped(1_000, 'fail', { batch: 'b1' });
  const ttl = (name: AccountName, window: string) => redis.ttl(keys.account('acme', name.scope, name.id, window));
  await ledger.reserve(ask(accounts, 'a', 10));
  expect(await ttl(own(accounts), 'total')).toBe(2 * dayS);
  expect(await ttl(batch('b1'), 'total')).toBe(30 * dayS);
  expect(await ttl(tenant, '2026-11-21T12')).toBe(7_200);
  await ledger.settle(paid(accounts, 'a', 10));
  expect(await redis.ttl(keys.costs('acme', '2026-11-21'))).toBe(31 * dayS);

  await ledger.await(accounts, batch('b1'), 10);
  expect(await ttl(own(accounts), 'total')).toBe(2 * dayS);
  await world.setBudget('b1', 10);
  await ledger.await(accounts, batch('b1'), 10);
  expect(await ttl(own(accounts), 'total')).toBe(30 * dayS);
  expect(await redis.ttl(keys.accountWaiting('acme', 'batch', 'b1'))).toBe(30 * dayS);
});

test('every key that a ledger writes expires, but for the set of tenants', async () => {
  const { ledger, redis, keys, setBudget, topUp } = await redisLedgerWorld(hourly);
  await setBudget('b1', 100);
  const [accounts, other] = [capped(1_000, 'fail', { batch: 'b1' }), capped(10)];
  await ledger.reserve(ask(accounts, 'a', 50));
  await ledger.reserve(ask(other, 'a', 50));
  await ledger.await(other, own(other), 50);
  await ledger.await(accounts, batch('b1'), 100);
  await topUp(own(other), 100);
  await ledger.dispatch();
  await ledger.settle(paid(accounts, 'a', 50));
  const all = await redis.keys(`${keys.account('acme', '', '', '').replace(/:::$/, '')}*`);
  expect(all.length).toBeGreaterThan(6);
  for (const key of all) expect(await redis.ttl(key), key).toBeGreaterThan(0);
});

test('a ledger without caps leaves no account behind, only counters', async () => {
  const { ledger, redis, keys } = await redisLedgerWorld();
  await ledger.settle(paid(someAccounts(), 'a', 50));
  await ledger.writeOff(someAccounts());
  const all = await redis.keys(`${keys.account('acme', '', '', '').replace(/:::$/, '')}*`);
  expect(all.sort()).toEqual([keys.costs('acme', '2026-11-21'), keys.counted('acme')].sort());
});

test('what a run remembers of finished reservations is bounded', async () => {
  const { ledger, redis, keys } = await redisLedgerWorld();
  const accounts = capped(1_000_000);
  for (let call = 0; call < 100; call++) {
    await ledger.reserve(ask(accounts, `call-${call}`, 50));
    await ledger.settle(paid(accounts, `call-${call}`, 50));
  }
  const account = await redis.hgetall(keys.account('acme', 'run', accounts.runId, 'total'));
  expect(Object.keys(account).sort()).toEqual(['cap', 'done', 'onExceed', 'reserved', 'spent']);
  expect(account['done']?.split('\n').filter(Boolean)).toHaveLength(32);
});

test('attempts without a cap that end in one tick are counted in one call', async () => {
  const { ledger, redis, costs } = await redisLedgerWorld();
  await ledger.settle(paid(someAccounts(), 'first', 1));
  const calls = vi.spyOn(redis, 'evalsha');
  await Promise.all(Array.from({ length: 50 }, (_, i) => ledger.settle(paid(someAccounts(), `a${i}`, 2))));
  expect(calls).toHaveBeenCalledTimes(1);
  expect(await costs('2026-11-21')).toMatchObject([{ attempts: 51, costMicrocents: 101 }]);
  await Promise.all(Array.from({ length: 450 }, (_, i) => ledger.settle(paid(someAccounts(), `b${i}`, 2))));
  expect(calls).toHaveBeenCalledTimes(4);
  expect(await costs('2026-11-21')).toMatchObject([{ attempts: 501 }]);
});

test('a call whose reply is lost is made once', async () => {
  const world = await redisLedgerWorld();
  const proxy = await startRedisProxy(inject('redisUrl'));
  onTestFinished(() => proxy[Symbol.asyncDispose]());
  const ledger = await another(world, proxy.url);
  const accounts = capped(1_000);
  await ledger.reserve(ask(accounts, 'warm-up', 1));
  await ledger.settle(paid(accounts, 'warm-up', 0));
  await ledger.settle(paid(someAccounts(), 'free-warm-up', 0));
  const lossy = async <T>(call: () => Promise<T>) => {
    const lost = proxy.dropRepliesOnce();
    const [answer] = await Promise.all([call(), lost]);
    return answer;
  };
  expect(await lossy(() => ledger.reserve(ask(accounts, 'a', 600)))).toMatchObject({ kind: 'reserved', amount: 600 });
  expect(await world.view(own(accounts))).toMatchObject({ reservedMicrocents: 600 });
  await lossy(() => ledger.settle(paid(accounts, 'a', 400)));
  expect(await world.view(own(accounts))).toMatchObject({ spentMicrocents: 400, reservedMicrocents: 0 });
  await lossy(() => ledger.settle(paid(someAccounts(), 'free', 7)));
  const [row] = await world.costs('2026-11-21');
  expect(row).toMatchObject({ attempts: 4, costMicrocents: 407 });
});

test('money that is promised to a run goes to another when the run does not come for it', async () => {
  const { ledger, redis, keys, setBudget, topUp } = await redisLedgerWorld();
  await setBudget('b1', 10);
  const [first, second] = [someAccounts({ batch: 'b1' }), someAccounts({ batch: 'b1' })];
  for (const accounts of [first, second]) await ledger.await(accounts, batch('b1'), 100);
  await topUp(batch('b1'), 100);
  expect(await ledger.dispatch()).toEqual([first.runId]);
  expect(await ledger.dispatch()).toEqual([]);
  await redis.zadd(keys.accountPromises('acme', 'batch', 'b1'), 'XX', 1, first.runId);
  expect(await ledger.dispatch()).toEqual([second.runId]);
});

test('empty wait queues are not looked at again', async () => {
  const { ledger, redis, keys, setBudget, topUp } = await redisLedgerWorld();
  await setBudget('b1', 10);
  const accounts = someAccounts({ batch: 'b1' });
  await ledger.await(accounts, batch('b1'), 100);
  expect(await redis.smembers(keys.tenantsWaiting)).toEqual(['acme']);
  expect(await redis.smembers(keys.accountsWaiting('acme'))).toEqual(['batch:b1']);
  await topUp(batch('b1'), 100);
  expect(await ledger.dispatch()).toEqual([accounts.runId]);
  await ledger.dispatch();
  expect(await redis.exists(keys.tenantsWaiting, keys.accountsWaiting('acme'))).toBe(0);
});

test('an operator reads in the log that a model costs more than was held for it, once for each new excess', async () => {
  const world = await redisLedgerWorld();
  const warn = vi.fn<(facts: object, message: string) => void>();
  const log = { ...silentLog, warn } as unknown as typeof silentLog;
  const ledger = redisLedger({ ...world, log, tenants: tenantsOf({}), costsRetentionDays: 30 });
  const accounts = capped(1_000);
  for (const [id, cost] of Object.entries({ a: 150, b: 140, c: 170 })) {
    await ledger.reserve(ask(accounts, id, 100));
    await ledger.settle(paid(accounts, id, cost));
  }
  const facts = { provider: 'openai', model: 'm' };
  expect(warn.mock.calls.map(([fact]) => fact)).toEqual([
    { ...facts, overMicrocents: 50 },
    { ...facts, overMicrocents: 70 },
  ]);
});

test('a Redis that cannot be reached is queue_unavailable', async () => {
  const world = await redisLedgerWorld();
  const redis = await testRedis('command');
  redis.disconnect();
  await until('the connection to end', () => redis.status === 'end');
  const ledger = redisLedger({ ...world, redis, log: silentLog, tenants: hourly, costsRetentionDays: 30 });
  const accounts = capped(1_000, 'fail', { batch: 'b1' });
  const calls = [
    () => ledger.reserve(ask(accounts, 'a', 1)),
    () => ledger.settle(paid(accounts, 'a', 1)),
    () => ledger.release(accounts, 'a'),
    () => ledger.writeOff(accounts),
    () => ledger.await(accounts, batch('b1'), 1),
    () => ledger.dispatch(),
  ];
  for (const call of calls) await expect(call()).rejects.toMatchObject({ code: 'queue_unavailable' });
  const free = redisLedger({ ...world, redis, log: silentLog, tenants: tenantsOf({}), costsRetentionDays: 30 });
  await expect(free.settle(paid(someAccounts(), 'a', 1))).rejects.toMatchObject({ code: 'queue_unavailable' });
});
