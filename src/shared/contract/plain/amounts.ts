/** 1 USD = 100,000,000 microcents (1e-8 USD). Money is only ever an integer count of these. */
export const microcentsPerUsd = 100_000_000;

/** Rounds once, here, so that sums of parts stay exact. */
export function usdToMicrocents(usd: number): number {
  return Math.round(usd * microcentsPerUsd);
}

/** For people: four significant decimals below a cent, else cents; never used in arithmetic. */
export function formatUsd(cost: number): string {
  const usd = cost / microcentsPerUsd;
  return `$${usd !== 0 && Math.abs(usd) < 0.01 ? usd.toFixed(6) : usd.toFixed(4)}`;
}

/** The tokens of no call. */
export const zeroUsage: Readonly<Record<'input' | 'output' | 'cached' | 'cacheWrite' | 'total', number>> =
  Object.freeze({ input: 0, output: 0, cached: 0, cacheWrite: 0, total: 0 });
