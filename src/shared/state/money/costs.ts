import { jsonOr, jsonText } from '../../base/json.ts';
import { z } from 'zod';
import type { Clock } from '../../base/clock.ts';
import type { Attempt } from '../../contract/journal/journal.ts';
import { costCounters, windowOf, type CostRow, type CostSums, type Usage } from '../../contract/money.ts';
import { loadScript, runScript } from '../script.ts';
import type { KeySpace } from '../keys.ts';

const script = loadScript(import.meta.url, './count.lua');

/** Attempts in one script call: about 20 arguments each, and Redis does nothing else meanwhile. */
const mostAtOnce = 200;

interface CostCounterOptions extends KeySpace {
  readonly clock: Clock;
  readonly keepCostsS: number;
}

/** What an agent of a tenant paid for, counted once per id. */
interface Counted {
  readonly id: string;
  readonly tenant: string;
  readonly agentId: string;
  readonly attempts: readonly PaidAttempt[];
}

interface Gathered {
  readonly counted: Counted[];
  readonly done: Promise<void>;
}

/**
 * Counts the costs of attempts that no account pays for, once per id. Those of one tick and tenant leave in one call. Throws
 * `queue_unavailable`.
 */
export function costCounter({ redis, keys, clock, keepCostsS }: CostCounterOptions) {
  const gathering = new Map<string, Gathered>();

  async function write(tenant: string, counted: readonly Counted[]): Promise<void> {
    const now = clock.now();
    const keysOfDay = [keys.counted(tenant), keys.costs(tenant, windowOf('day', now))];
    const args = [now, keepCostsS, ...counted.flatMap(countersOf)];
    await runScript(redis, script, keysOfDay, args, { doing: `costs of tenant ${tenant}` });
  }

  function gather(tenant: string): Gathered {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const gathered: Gathered = { counted: [], done: promise };
    gathering.set(tenant, gathered);
    setImmediate(() => {
      if (gathering.get(tenant) === gathered) gathering.delete(tenant);
      write(tenant, gathered.counted).then(resolve, reject);
    });
    return gathered;
  }

  return async (counted: Counted): Promise<void> => {
    const { tenant } = counted;
    const gathered = gathering.get(tenant) ?? gather(tenant);
    gathered.counted.push(counted);
    if (gathered.counted.length >= mostAtOnce) gathering.delete(tenant);
    await gathered.done;
  };
}

function countersOf({ id, agentId, attempts }: Counted): (string | number)[] {
  const counters = costIncrements(agentId, attempts);
  return [id, counters.length, ...counters.flat()];
}

export type CostSource = Pick<CostRow, 'agent' | 'provider' | 'model'>;

/** Names what was paid for. A field of the hash at `keys.costs` is a counter, a space and this. */
export function costSource({ agent, provider, model }: CostSource): string {
  return jsonText([agent, provider, model]);
}

/** One attempt that was paid for. */
export interface PaidAttempt extends Readonly<Pick<Attempt, 'provider' | 'model' | 'costMicrocents' | 'priced'>> {
  readonly usage: Usage;
}

/** What these attempts of an agent add to the hash at `keys.costs`. The ledger adds unconfirmed cost. */
export function costIncrements(agent: string, attempts: readonly PaidAttempt[]): [field: string, by: number][] {
  const sums = new Map<string, number>();
  for (const { provider, model, usage, costMicrocents, priced } of attempts) {
    const { input, output, cached, cacheWrite, total } = usage;
    const counts: Partial<CostSums> = {
      attempts: 1,
      input,
      output,
      cached,
      cacheWrite,
      total,
      costMicrocents,
      unpricedAttempts: priced ? 0 : 1,
    };
    for (const [counter, by] of Object.entries(counts)) {
      const field = `${counter} ${costSource({ agent, provider, model })}`;
      if (by > 0) sums.set(field, (sums.get(field) ?? 0) + by);
    }
  }
  return [...sums];
}

const sourceNames = z.tuple([z.string(), z.string(), z.string()]);

/** The rows of one day from the hash at `keys.costs`. Fields that cannot be read are left out. */
export function costRowsOf(day: string, hash: Readonly<Record<string, string>>): CostRow[] {
  const rows = new Map<string, CostRow>();
  for (const [field, value] of Object.entries(hash)) {
    const at = field.indexOf(' ');
    const counter = costCounters.find((name) => name === field.slice(0, at));
    const source = field.slice(at + 1);
    const row = rows.get(source) ?? emptyRow(day, source);
    if (!counter || !row) continue;
    rows.set(source, { ...row, [counter]: Number(value) });
  }
  return [...rows.values()];
}

function emptyRow(day: string, source: string): CostRow | undefined {
  const names = sourceNames.safeParse(jsonOr(source));
  if (!names.success) return undefined;
  const [agent, provider, model] = names.data;
  const zeros = Object.fromEntries(costCounters.map((name) => [name, 0])) as CostSums;
  return { day, agent, provider, model, ...zeros };
}
