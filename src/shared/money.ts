import { z } from 'zod';

/** 1 USD = 100,000,000 microcents (1e-8 USD). Money is only ever an integer count of these. */
export const microcentsPerUsd = 100_000_000;

export const microcents = z.int().min(0);

/** Rounds once, here, so that sums of parts stay exact. */
export function usdToMicrocents(usd: number): number {
  return Math.round(usd * microcentsPerUsd);
}

/** For people: four significant decimals below a cent, else cents; never used in arithmetic. */
export function formatUsd(cost: number): string {
  const usd = cost / microcentsPerUsd;
  return `$${usd !== 0 && Math.abs(usd) < 0.01 ? usd.toFixed(6) : usd.toFixed(4)}`;
}

/** Tokens of one model call or a sum of calls. `input` excludes what was read from or written to the cache. */
export const usage = z.object({
  input: z.int().min(0),
  output: z.int().min(0),
  cached: z.int().min(0),
  cacheWrite: z.int().min(0),
  total: z.int().min(0),
});
export type Usage = z.infer<typeof usage>;

export const modelUsage = z.object({
  ...usage.shape,
  attemptCount: z.int().min(0),
  costMicrocents: microcents,
});

/** The sum over a run, and the same split by model. Totals are the sum of `byModel`. */
export const runUsage = z.object({ ...usage.shape, byModel: z.record(z.string(), modelUsage) });
export type RunUsage = z.infer<typeof runUsage>;

export const zeroUsage: Usage = Object.freeze({ input: 0, output: 0, cached: 0, cacheWrite: 0, total: 0 });

export function addUsage(a: Usage, b: Usage): Usage {
  return {
    input: a.input + b.input,
    output: a.output + b.output,
    cached: a.cached + b.cached,
    cacheWrite: a.cacheWrite + b.cacheWrite,
    total: a.total + b.total,
  };
}

export const budgetOnExceed = z.enum(['fail', 'pause_for_approval', 'warn']);

/** A cap for one run. Zero or less means no cap. Give one of the two amounts. */
export const budget = z
  .strictObject({
    maxCostMicrocents: z.int().optional(),
    maxCostUsd: z.number().finite().optional(),
    onExceed: budgetOnExceed.default('fail'),
    unpriced: z.enum(['allow', 'deny']).default('allow'),
  })
  .refine(
    (b) => b.maxCostMicrocents === undefined || b.maxCostUsd === undefined,
    'give maxCostMicrocents or maxCostUsd, not both',
  );
export type Budget = z.infer<typeof budget>;

/** The cap in microcents, or undefined when there is none. */
export function budgetCap(b: Budget | undefined): number | undefined {
  const cap = b?.maxCostMicrocents ?? (b?.maxCostUsd === undefined ? undefined : usdToMicrocents(b.maxCostUsd));
  return cap === undefined || cap <= 0 ? undefined : cap;
}
