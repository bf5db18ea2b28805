import type { CostReport } from '../../../../shared/contract/report/costs.ts';

/** What one name came to. */
export interface CostSum {
  readonly name: string;
  readonly costMicrocents: number;
  /** Calls that broke off before their usage was known: what they may have cost. */
  readonly unconfirmedMicrocents: number;
  readonly calls: number;
  readonly tokens: number;
  /** Calls of models without a price. */
  readonly unpriced: number;
}

type Rows = CostReport['rows'];

/** The rows of a report summed by one of the things that it is grouped by, the most expensive first. */
export function sumsBy(rows: Rows, nameOf: (row: Rows[number]) => string | undefined): readonly CostSum[] {
  const groups = Map.groupBy(rows, (row) => nameOf(row) ?? '–');
  return [...groups]
    .map(([name, of]) => sumOf(name, of))
    .sort((a, b) => b.costMicrocents - a.costMicrocents || b.calls - a.calls);
}

/** The same by day, each day from the first to the last, also those that cost nothing; the latest first. */
export function sumsByDay({ rows, from, to }: Pick<CostReport, 'rows' | 'from' | 'to'>): readonly CostSum[] {
  const byDay = Map.groupBy(rows, ({ day }) => day ?? '');
  return daysBetween(from, to)
    .map((day) => sumOf(day, byDay.get(day) ?? []))
    .toReversed();
}

export function sumOf(name: string, rows: Rows): CostSum {
  const sum = (of: (row: Rows[number]) => number) => rows.reduce((total, row) => total + of(row), 0);
  return {
    name,
    costMicrocents: sum((row) => row.costMicrocents),
    unconfirmedMicrocents: sum((row) => row.unconfirmedMicrocents),
    calls: sum((row) => row.attempts),
    tokens: sum((row) => row.total),
    unpriced: sum((row) => row.unpricedAttempts),
  };
}

/** So many of these, the most expensive first. */
export function mostExpensive<T extends { readonly costMicrocents: number }>(
  all: readonly T[],
  most: number,
): readonly T[] {
  return all.toSorted((a, b) => b.costMicrocents - a.costMicrocents).slice(0, most);
}

/** The rows as they are, for a spreadsheet. Money is in dollars. */
export async function csvOf(rows: Rows): Promise<string> {
  const { stringify } = await import('csv-stringify/browser/esm/sync');
  const header = [
    'day',
    'agent',
    'provider',
    'model',
    'calls',
    'tokens',
    'cost_usd',
    'unconfirmed_usd',
    'calls_unpriced',
  ];
  const usd = (microcents: number) => (microcents / 1e8).toFixed(8);
  const table = rows.map((row) => [
    row.day ?? '',
    row.agent ?? '',
    row.provider ?? '',
    row.model ?? '',
    row.attempts,
    row.total,
    usd(row.costMicrocents),
    usd(row.unconfirmedMicrocents),
    row.unpricedAttempts,
  ]);
  return stringify([header, ...table]);
}

const dayMs = 86_400_000;

/** A day (UTC) so many days before now. */
export function dayBefore(days: number, nowMs: number): string {
  return new Date(nowMs - days * dayMs).toISOString().slice(0, 10);
}

function daysBetween(from: string, to: string): readonly string[] {
  const first = Date.parse(from);
  const count = Math.round((Date.parse(to) - first) / dayMs) + 1;
  return Array.from({ length: Math.max(0, count) }, (_, i) => dayBefore(-i, first));
}
