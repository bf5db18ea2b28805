import type { Clock } from '../../base/clock.ts';
import { costIncrements } from './accounts.ts';
import { windowOf } from '../../contract/money.ts';
import { loadScript, runScript, type Keys, type RedisConnection } from '../connect.ts';
import { redisError } from '../errors.ts';
import type { Settlement } from './reservations.ts';

const script = loadScript(import.meta.url, './count.lua');

/** Attempts in one script call: about 20 arguments each, and Redis does nothing else meanwhile. */
const mostAtOnce = 200;

export interface RedisCostsOptions {
  readonly redis: RedisConnection;
  readonly keys: Keys;
  readonly clock: Clock;
  readonly keepCostsS: number;
}

interface Gathered {
  readonly settlements: Settlement[];
  readonly done: Promise<void>;
}

/** Cost counters of attempts that no account pays for. Those of one tick and tenant leave in one call. */
export class RedisCosts {
  readonly #options: RedisCostsOptions;
  readonly #gathering = new Map<string, Gathered>();

  constructor(options: RedisCostsOptions) {
    this.#options = options;
  }

  /** Once per id. Throws `queue_unavailable`. */
  async add(settlement: Settlement): Promise<void> {
    const { tenant } = settlement.purse;
    const gathered = this.#gathering.get(tenant) ?? this.#gather(tenant);
    gathered.settlements.push(settlement);
    if (gathered.settlements.length >= mostAtOnce) this.#gathering.delete(tenant);
    await gathered.done;
  }

  #gather(tenant: string): Gathered {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const gathered: Gathered = { settlements: [], done: promise };
    this.#gathering.set(tenant, gathered);
    setImmediate(() => {
      if (this.#gathering.get(tenant) === gathered) this.#gathering.delete(tenant);
      this.#write(tenant, gathered.settlements).then(resolve, reject);
    });
    return gathered;
  }

  async #write(tenant: string, settlements: readonly Settlement[]): Promise<void> {
    const { redis, keys, clock, keepCostsS } = this.#options;
    const now = clock.now();
    const keysOfDay = [keys.counted(tenant), keys.costs(tenant, windowOf('day', now))];
    await runScript(redis, script, keysOfDay, [now, keepCostsS, ...settlements.flatMap(countersOf)]).catch(
      (error: unknown) => {
        throw redisError(error, `costs of tenant ${tenant}`);
      },
    );
  }
}

function countersOf(settlement: Settlement): (string | number)[] {
  const { id, purse, parts = [settlement] } = settlement;
  const counters = costIncrements(purse.agentId, parts);
  return [id, counters.length, ...counters.flat()];
}
