import { defined } from '../../shared/base/collections.ts';
import { z } from 'zod';
import { RunError } from '../../shared/base/errors.ts';
import { jsonText } from '../../shared/base/json.ts';
import { costRowsOf } from '../../shared/state/money/costs.ts';
import { costGroup, type CostGroup, type CostGroupRow, type CostReport } from '../../shared/contract/report/costs.ts';
import { costCounters, type CostRow, type CostSums } from '../../shared/contract/money.ts';
import type { TenantClient } from './client-core.ts';

export interface CostQuery {
  /** First day, `YYYY-MM-DD` in UTC. Default: six days before `to`. */
  readonly from?: string;
  /** Last day, included. Default: today. */
  readonly to?: string;
  /** What to group by. Default: day, agent and model. */
  readonly by?: readonly CostGroup[];
}

const maxDays = 400;
const defaultDays = 7;
const dayMs = 86_400_000;
const defaultGroups: readonly CostGroup[] = ['day', 'agent', 'model'];
/** Days that one round trip reads. */
const daysAtOnce = 50;

/** Costs of the tenant, grouped and summed. Throws `validation` for days and groups that make no sense. */
export async function readCosts(query: CostQuery, { core, tenant }: TenantClient): Promise<CostReport> {
  const days = daysOf(query, Date.now());
  const by = groupsOf(query.by);
  const rows = await core.reach(async (redis) => {
    const read: CostRow[] = [];
    for (let start = 0; start < days.length; start += daysAtOnce) {
      const some = days.slice(start, start + daysAtOnce);
      const hashes = await Promise.all(some.map((day) => redis.hgetall(core.keys.costs(tenant, day))));
      for (const [index, day] of some.entries()) read.push(...costRowsOf(day, hashes[index] ?? {}));
    }
    return read;
  });
  return {
    from: days[0] as string,
    to: days.at(-1) as string,
    by: [...by],
    rows: groupCosts(rows, by, tenant),
    totals: sumOf(rows),
  };
}

/** Every day of the query, oldest first. */
function daysOf({ from, to }: CostQuery, nowMs: number): string[] {
  const last = to === undefined ? Math.floor(nowMs / dayMs) : dayNumber(to, 'to');
  const first = from === undefined ? last - defaultDays + 1 : dayNumber(from, 'from');
  if (first > last) throw wrong('from', `from (${dayName(first)}) is after to (${dayName(last)})`);
  if (last - first >= maxDays) throw wrong('from', `at most ${maxDays} days at once`);
  return Array.from({ length: last - first + 1 }, (_, index) => dayName(first + index));
}

function dayNumber(text: unknown, field: string): number {
  const day = z.iso.date().safeParse(text);
  if (!day.success) throw wrong(field, `${field} must be a day like 2026-11-21`);
  return Date.parse(`${day.data}T00:00:00Z`) / dayMs;
}

function dayName(number: number): string {
  return new Date(number * dayMs).toISOString().slice(0, 10);
}

function groupsOf(by: readonly CostGroup[] | undefined): readonly CostGroup[] {
  if (by === undefined || by.length === 0) return defaultGroups;
  const parsed = z.array(costGroup).safeParse(by);
  if (!parsed.success) throw wrong('by', `by takes ${costGroup.options.join(', ')}`);
  return [...new Set(parsed.data)];
}

function wrong(path: string, message: string): RunError {
  return new RunError('validation', message, { details: [{ path, message }] });
}

function groupCosts(rows: readonly CostRow[], by: readonly CostGroup[], tenant: string): CostGroupRow[] {
  const groups = Map.groupBy(rows, (row) => jsonText(by.map((group) => keyOf(row, group))));
  return [...groups.values()]
    .map((of) => ({ ...headOf(of[0] as CostRow, by, tenant), ...sumOf(of) }))
    .sort((a, b) => (a.day ?? '').localeCompare(b.day ?? '') || b.costMicrocents - a.costMicrocents);
}

function keyOf(row: CostRow, group: CostGroup): string {
  if (group === 'tenant') return '';
  return group === 'model' ? `${row.provider}/${row.model}` : row[group];
}

function headOf({ day, agent, provider, model }: CostRow, by: readonly CostGroup[], tenant: string) {
  return defined({
    tenant: by.includes('tenant') ? tenant : undefined,
    day: by.includes('day') ? day : undefined,
    agent: by.includes('agent') ? agent : undefined,
    provider: by.includes('model') ? provider : undefined,
    model: by.includes('model') ? model : undefined,
  });
}

function sumOf(rows: readonly CostSums[]): CostSums {
  const total = Object.fromEntries(costCounters.map((field) => [field, 0])) as CostSums;
  for (const row of rows) for (const field of costCounters) total[field] += row[field];
  return total;
}
