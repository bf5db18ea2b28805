import { costIncrements, type CostSource } from '../../../src/shared/state/money/costs.ts';
import { zeroUsage } from '../../../src/shared/contract/money.ts';
import type { ClientWorld } from '../cli/options/client.ts';

/** Counts one attempt as the ledger does. */
export async function spend(
  { redis, keys }: ClientWorld,
  day: string,
  source: Partial<CostSource> & { readonly tenant?: string },
  costMicrocents: number,
  priced = true,
): Promise<void> {
  const { tenant = 'default', agent = 'support', provider = 'openai', model = 'small' } = source;
  const usage = { ...zeroUsage, input: 100, output: 10, total: 110 };
  for (const [field, by] of costIncrements(agent, [{ provider, model, usage, costMicrocents, priced }]))
    await redis.hincrby(keys.costs(tenant, day), field, by);
}

/** A day in UTC, counted from today. */
export function dayFromToday(days: number): string {
  return new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10);
}
