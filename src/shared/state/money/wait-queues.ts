import type { Clock } from '../../base/clock.ts';
import { budgetScope } from '../../contract/money.ts';
import type { RedisConnection } from '../connect.ts';
import { loadScript, runScript } from '../script.ts';
import type { Keys } from '../keys.ts';
import { redisError } from '../errors.ts';
import type { Tenants } from '../../contract/tenants.ts';
import { queueFront, waitedFor } from './accounts.ts';

const script = loadScript(import.meta.url, './dispatch.lua');

/** Queues that one call looks at, and tenants that they belong to. Where there are more, chance decides which. */
const mostQueues = 1_000;
const mostTenants = 50;

export interface AccountWaitQueuesOptions {
  readonly redis: RedisConnection;
  readonly keys: Keys;
  readonly clock: Clock;
  readonly tenants: Tenants;
}

/** The wait queues of all accounts. */
export class AccountWaitQueues {
  readonly #options: AccountWaitQueuesOptions;

  constructor(options: AccountWaitQueuesOptions) {
    this.#options = options;
  }

  /**
   * Takes the runs whose money is there. Throws `queue_unavailable` when none could be taken: what was taken before the
   * connection broke is in no queue any more, so it is answered.
   */
  async dispatch(): Promise<readonly string[]> {
    const { redis, keys } = this.#options;
    const taken: string[] = [];
    try {
      const tenants = await redis.srandmember(keys.tenantsWaiting, mostTenants);
      const each = Math.ceil(mostQueues / Math.max(1, tenants.length));
      const looks = await Promise.allSettled(tenants.map((tenant) => this.#takeOf(tenant, each, taken)));
      const failed = looks.find((look) => look.status === 'rejected');
      if (failed) throw failed.reason;
    } catch (error) {
      if (taken.length === 0) throw redisError(error, 'take of runs that wait for money');
    }
    return taken;
  }

  async #takeOf(tenant: string, queues: number, taken: string[]): Promise<void> {
    const { redis, keys } = this.#options;
    const names = await redis.srandmember(keys.accountsWaiting(tenant), queues);
    if (names.length === 0) await this.#forget(tenant);
    const looks = await Promise.allSettled(names.map((name) => this.#takeFrom(tenant, name, taken)));
    const failed = looks.find((look) => look.status === 'rejected');
    if (failed) throw failed.reason;
  }

  async #takeFrom(tenant: string, name: string, taken: string[]): Promise<void> {
    const { redis, keys, clock, tenants } = this.#options;
    const colon = name.indexOf(':');
    const account = { scope: budgetScope.parse(name.slice(0, colon)), id: name.slice(colon + 1) };
    const front = queueFront(keys, tenant, waitedFor(account, tenant, tenants, clock.now()));
    const all = [...front.keys, keys.accountsWaiting(tenant)];
    const doing = `dispatch of account ${name}`;
    taken.push(...((await runScript(redis, script, all, [...front.args, name], { doing })) as readonly string[]));
  }

  /** A run may have joined a queue meanwhile: then the tenant is added again. */
  async #forget(tenant: string): Promise<void> {
    const { redis, keys } = this.#options;
    await redis.srem(keys.tenantsWaiting, tenant);
    if ((await redis.exists(keys.accountsWaiting(tenant))) === 1) await redis.sadd(keys.tenantsWaiting, tenant);
  }
}
