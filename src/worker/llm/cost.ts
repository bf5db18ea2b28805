import type { Usage } from '../../shared/contract/money.ts';

/** Microcents per million tokens, a whole number; with tiers, where a long prompt makes the whole call dearer. */
export type Rate = number | TieredRate;

interface TieredRate {
  readonly base: number;
  /** In rising order. The last tier whose `above` is less than the prompt's tokens (cached ones included) holds. */
  readonly tiers: readonly { readonly above: number; readonly rate: number }[];
}

/** What a model costs, by class of token. */
export interface Price {
  readonly input: Rate;
  readonly output: Rate;
  readonly cached: Rate;
  readonly cacheWrite: Rate;
}

/** The price that holds at a time, or undefined when it is not known. Never throws. */
export type PriceLookup = (provider: string, model: string, at: Date) => Price | undefined;

/** Microcents of one call: each class of token is rounded once, so that sums of calls stay exact. */
export function costOf(usage: Usage, price: Price): number {
  const prompt = usage.input + usage.cached + usage.cacheWrite;
  return (
    tokensCost(usage.input, rateAt(price.input, prompt)) +
    tokensCost(usage.output, rateAt(price.output, prompt)) +
    tokensCost(usage.cached, rateAt(price.cached, prompt)) +
    tokensCost(usage.cacheWrite, rateAt(price.cacheWrite, prompt))
  );
}

function rateAt(rate: Rate, promptTokens: number): number {
  if (typeof rate === 'number') return rate;
  return rate.tiers.findLast((tier) => promptTokens > tier.above)?.rate ?? rate.base;
}

/** The product of tokens and rate passes 2^53 for dear models, hence the big integers. */
function tokensCost(tokens: number, ratePerMillion: number): number {
  if (tokens === 0 || ratePerMillion === 0) return 0;
  return Number((BigInt(tokens) * BigInt(ratePerMillion) + 500_000n) / 1_000_000n);
}
