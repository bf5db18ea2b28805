import { z } from 'zod';
import { microcentsPerUsd, usdToMicrocents, zeroUsage } from './plain/amounts.ts';

export { formatUsd, microcentsPerUsd, usdToMicrocents, zeroUsage } from './plain/amounts.ts';

export const microcents = z.int().min(0);

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

export function addUsage(a: Usage, b: Usage): Usage {
  return {
    input: a.input + b.input,
    output: a.output + b.output,
    cached: a.cached + b.cached,
    cacheWrite: a.cacheWrite + b.cacheWrite,
    total: a.total + b.total,
  };
}

export const emptyRunUsage: RunUsage = Object.freeze({ ...zeroUsage, byModel: {} });

/** What a sum needs of an attempt. */
interface CountedAttempt {
  readonly outcome: 'succeeded' | 'failed' | 'skipped';
  readonly model: string;
  readonly usage?: Usage | undefined;
  readonly costMicrocents: number;
}

/** The run's sum with one more attempt. Skipped attempts change nothing; failed ones count, with what they used. */
export function addAttempt(sum: RunUsage, { outcome, model, usage: of, costMicrocents }: CountedAttempt): RunUsage {
  if (outcome === 'skipped') return sum;
  const used = addUsage(zeroUsage, of ?? zeroUsage);
  return addRunUsage(sum, { ...used, byModel: { [model]: { ...used, attemptCount: 1, costMicrocents } } });
}

/** The sums of two runs together. */
export function addRunUsage(a: RunUsage, b: RunUsage): RunUsage {
  const { byModel: ofA, ...sumA } = a;
  const { byModel: ofB, ...sumB } = b;
  // Callers may name models as they like, and every object has something called `constructor`.
  const models = new Map(Object.entries(ofA));
  for (const [model, used] of Object.entries(ofB)) {
    const before = models.get(model);
    const sum = before && {
      ...addUsage(before, used),
      attemptCount: before.attemptCount + used.attemptCount,
      costMicrocents: before.costMicrocents + used.costMicrocents,
    };
    models.set(model, sum ?? used);
  }
  return { ...addUsage(sumA, sumB), byModel: Object.fromEntries(models) };
}

/** What happens before a call that could pass a cap: the run fails, waits for a person, or goes on with a warning. */
export const budgetOnExceed = z.enum(['fail', 'pause_for_approval', 'warn']);
export type OnExceed = z.infer<typeof budgetOnExceed>;

/** A cap for one run. Zero or less means no cap of its own, never none at all. Give one of the two amounts. */
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
export function budgetCap(b: Pick<Budget, 'maxCostMicrocents' | 'maxCostUsd'> | undefined): number | undefined {
  const cap = b?.maxCostMicrocents ?? (b?.maxCostUsd === undefined ? undefined : usdToMicrocents(b.maxCostUsd));
  return cap === undefined || cap <= 0 ? undefined : cap;
}

/** Ten million dollars: sums of such amounts are exact. */
export const maxMicrocents = 1e15;
export const capUsd = z
  .number()
  .positive()
  .max(maxMicrocents / microcentsPerUsd);
export const capMicrocents = z.int().positive().max(maxMicrocents);

/** A cap for a batch. Give one of the two amounts. */
export const budgetSettings = z
  .strictObject({
    maxCostUsd: capUsd.optional(),
    maxCostMicrocents: capMicrocents.optional(),
    onExceed: budgetOnExceed.default('fail'),
  })
  .refine(
    (b) => (b.maxCostUsd === undefined) !== (b.maxCostMicrocents === undefined),
    'give maxCostUsd or maxCostMicrocents, one of them',
  );

/** Whose money an account counts: one run's, a batch's, or a tenant's within a window of time. */
export const budgetScope = z.enum(['run', 'batch', 'tenant']);
export type BudgetScope = z.infer<typeof budgetScope>;

/** Windows are calendar hours, days and months in UTC; `total` never ends. */
export const budgetWindow = z.enum(['total', 'hour', 'day', 'month']);
export type BudgetWindow = z.infer<typeof budgetWindow>;

/** Where a window of time begins, in letters that sort and fit into a key: `2026-11-21`, `2026-11-21T07`, `2026-11`. */
export function windowOf(window: BudgetWindow, atMs: number): string {
  const iso = new Date(atMs).toISOString();
  if (window === 'total') return 'total';
  return iso.slice(0, { hour: 13, day: 10, month: 7 }[window]);
}

/** An account of the ledger as people see it. Amounts are microcents. */
export const budgetView = z.object({
  scope: budgetScope,
  id: z.string(),
  window: budgetWindow,
  windowStart: z.string(),
  /** Absent: no cap. Top-ups are included. */
  capMicrocents: microcents.optional(),
  onExceed: budgetOnExceed,
  /** What was paid, plus what calls of unknown outcome may have cost. */
  spentMicrocents: microcents,
  /** The part of `spentMicrocents` that no provider confirmed: calls that broke off before they reported their usage. */
  unconfirmedMicrocents: microcents,
  /** Held for calls that are under way. */
  reservedMicrocents: microcents,
  /** Runs that wait for money of this account. */
  waiting: z.int().min(0),
});
export type BudgetView = z.infer<typeof budgetView>;

/** What is counted of attempts. */
export const costSums = z.object({
  attempts: z.int().min(0),
  ...usage.shape,
  costMicrocents: microcents,
  /** Beside `costMicrocents`: what calls of unknown outcome may have cost. */
  unconfirmedMicrocents: microcents,
  unpricedAttempts: z.int().min(0),
});
export type CostSums = z.infer<typeof costSums>;
export const costCounters = costSums.keyof().options;

/** Whose costs are those of model calls that are no work of an agent: titles. */
export const systemAgent = '_system';

/** Costs of one day (UTC), agent and model of a tenant. */
export const costRow = z.object({
  day: z.iso.date(),
  agent: z.string(),
  provider: z.string(),
  model: z.string(),
  ...costSums.shape,
});
export type CostRow = z.infer<typeof costRow>;
