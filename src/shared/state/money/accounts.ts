import { z } from 'zod';
import { jsonText } from '../../base/json-text.ts';
import {
  budgetOnExceed,
  windowOf,
  type BudgetScope,
  type BudgetView,
  type BudgetWindow,
  type CostRow,
  type OnExceed,
  type Usage,
} from '../../contract/money.ts';

/**
 * Fields of an account in the ledger, a hash at `keys.account`. Amounts are microcents, absent means 0. The scripts of
 * the ledger know these names too.
 *
 * - `spent`: paid, or presumed to be; `presumed`: the part of it that nobody confirmed
 * - `reserved`: held for calls that are under way
 * - `cap` and `onExceed`: of a batch they are set by a producer; of a run and a tenant they are a copy, for people to read
 * - `extra`: top-ups, on top of `cap`
 *
 * Further fields belong to the ledger's own scripts: `r:<id>` and `done` (reservations of a run, open and finished),
 * `x:<provider>/<model>` (by how much a call cost more than was held for it), `margin`. Names that begin with `t:` are
 * free for top-ups.
 */
export const accountField = {
  spent: 'spent',
  presumed: 'presumed',
  reserved: 'reserved',
  cap: 'cap',
  onExceed: 'onExceed',
  extra: 'extra',
} as const;

export interface AccountPlace {
  readonly scope: BudgetScope;
  readonly id: string;
  readonly window: BudgetWindow;
  /** As `windowOf` names it. */
  readonly windowStart: string;
}

const amount = z.coerce.number().int().min(0).default(0);
const accountHash = z.object({
  spent: amount,
  presumed: amount,
  reserved: amount,
  extra: amount,
  cap: z.coerce.number().int().min(0).optional(),
  onExceed: budgetOnExceed.default('fail'),
});

/** An account as people see it, from its hash; an empty hash is an account that nothing was spent from. */
export function budgetViewOf(
  place: AccountPlace,
  hash: Readonly<Record<string, string>>,
  waiting: number,
  /** Where the account's own fields have none: a tenant's budget before its first call. */
  otherwise?: { readonly capMicrocents: number; readonly onExceed: OnExceed },
): BudgetView {
  const account = accountHash.parse({ ...(otherwise && { onExceed: otherwise.onExceed }), ...hash });
  const cap = account.cap ?? otherwise?.capMicrocents;
  return {
    ...place,
    ...(cap !== undefined && { capMicrocents: cap + account.extra }),
    onExceed: account.onExceed,
    spentMicrocents: account.spent,
    presumedMicrocents: account.presumed,
    reservedMicrocents: account.reserved,
    waiting,
  };
}

const dayS = 86_400;

/** Seconds that a run's account is kept after its last use, and while the run waits for money. */
export const runAccountTtlS = 2 * dayS;
export const waitingAccountTtlS = 30 * dayS;

/** Seconds that an account of a batch or a tenant is kept after its last use: 30 days, or two windows of time. */
export function accountTtlS(window: BudgetWindow): number {
  return { total: 30 * dayS, hour: 7_200, day: 2 * dayS, month: 62 * dayS }[window];
}

/** The name of the window before the one that `atMs` is in. */
export function windowBefore(window: BudgetWindow, atMs: number): string {
  const at = new Date(atMs);
  const start =
    window === 'month'
      ? Date.UTC(at.getUTCFullYear(), at.getUTCMonth(), 1)
      : atMs - (atMs % (window === 'hour' ? 3_600_000 : dayS * 1_000));
  return windowOf(window, start - 1);
}

const costCounters = [
  'attempts',
  'input',
  'output',
  'cached',
  'cacheWrite',
  'total',
  'costMicrocents',
  'presumedMicrocents',
  'unpricedAttempts',
] as const satisfies readonly Exclude<keyof CostRow, 'day' | 'agent' | 'provider' | 'model'>[];
type CostCounter = (typeof costCounters)[number];

export type CostSource = Pick<CostRow, 'agent' | 'provider' | 'model'>;

/** Names what was paid for. A field of the hash at `keys.costs` is a counter, a space and this. */
export function costSource({ agent, provider, model }: CostSource): string {
  return jsonText([agent, provider, model]);
}

/** One attempt that was paid for. */
export interface PaidAttempt {
  readonly provider: string;
  readonly model: string;
  readonly usage: Usage;
  readonly costMicrocents: number;
  readonly priced: boolean;
}

/**
 * The fields of the hash at `keys.costs` to which these attempts of an agent add something, and what. Presumed cost is added
 * by the ledger, which knows it.
 */
export function costIncrements(agent: string, attempts: readonly PaidAttempt[]): [field: string, by: number][] {
  const sums = new Map<string, number>();
  for (const { provider, model, usage, costMicrocents, priced } of attempts) {
    const { input, output, cached, cacheWrite, total } = usage;
    const counts: Partial<Record<CostCounter, number>> = {
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
  const names = sourceNames.safeParse(readJson(source));
  if (!names.success) return undefined;
  const [agent, provider, model] = names.data;
  const zeros = Object.fromEntries(costCounters.map((name) => [name, 0])) as Record<CostCounter, number>;
  return { day, agent, provider, model, ...zeros };
}

function readJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
