import { budgetViewOf } from '../../src/shared/state/money/accounts.ts';
import { costRowsOf } from '../../src/shared/state/money/costs.ts';
import { silentLog } from '../../src/shared/base/log.ts';
import { windowOf, type BudgetWindow } from '../../src/shared/contract/money.ts';
import type { RedisConnection } from '../../src/shared/state/connect.ts';
import { keysFor, type Keys } from '../../src/shared/state/keys.ts';
import { tenantsOf, type Tenants } from '../../src/shared/contract/tenants.ts';
import { redisLedger } from '../../src/shared/state/money/ledger.ts';
import { testPrefix, testRedis } from '../support/redis.ts';
import { TestClock, type AccountName, type LedgerWorld } from './ledger-world.ts';

export interface RedisLedgerWorld extends LedgerWorld {
  readonly redis: RedisConnection;
  readonly keys: Keys;
}

/** A ledger in the test Redis, or in the one at `url`, under a prefix of its own. */
export async function redisLedgerWorld(
  tenants: Tenants = tenantsOf({}),
  url?: string,
  of = 'acme',
): Promise<RedisLedgerWorld> {
  const redis = await testRedis('work', url);
  const keys = keysFor(testPrefix());
  const clock = new TestClock();
  const windowFor = ({ scope }: AccountName): BudgetWindow =>
    scope === 'tenant' ? (tenants.of(of).budget?.window ?? 'day') : 'total';
  const keyOf = (name: AccountName) => keys.account(of, name.scope, name.id, windowOf(windowFor(name), clock.now()));
  return {
    redis,
    keys,
    clock,
    ledger: redisLedger({ redis, keys, clock, log: silentLog, tenants, costsRetentionDays: 30 }),
    async setBudget(batch, cap, onExceed = 'fail') {
      await redis.hset(keyOf({ scope: 'batch', id: batch }), { cap, onExceed });
    },
    async topUp(name, amount) {
      await redis.hincrby(keyOf(name), 'extra', amount);
    },
    async view(name) {
      const window = windowFor(name);
      const account = { ...name, window, windowStart: windowOf(window, clock.now()) };
      const waiting = await redis.zcard(keys.accountWaiting(of, name.scope, name.id));
      return budgetViewOf(account, await redis.hgetall(keyOf(name)), waiting);
    },
    costs: async (day) => costRowsOf(day, await redis.hgetall(keys.costs(of, day))),
  };
}
