import { z } from 'zod';
import { defined } from '../base/collections.ts';
import { budgetCap, budgetOnExceed } from './money.ts';
import { readYamlFile } from '../base/yaml-file.ts';

/** Money of a tenant within a calendar hour, day or month (UTC). Zero or less means no cap. */
const tenantBudget = z
  .strictObject({
    maxCostUsd: z.number().finite().max(50_000_000).optional(),
    maxCostMicrocents: z.int().optional(),
    window: z.enum(['hour', 'day', 'month']),
    onExceed: budgetOnExceed.default('fail'),
    unpriced: z.enum(['allow', 'deny']).default('allow'),
  })
  .refine(
    (budget) => (budget.maxCostUsd === undefined) !== (budget.maxCostMicrocents === undefined),
    'give maxCostUsd or maxCostMicrocents, one of them',
  );

const tenantEntry = z.strictObject({
  /** The share where tenants wait for the same provider limit. */
  weight: z.number().positive().max(1_000).optional(),
  budget: tenantBudget.optional(),
  /** Seconds for which what its runs did can be read after their end: never longer than `ARCHIVE_TTL_S`. 0: not at all. */
  archiveTtlS: z.int().min(0).max(31_622_400).optional(),
});
type TenantEntry = z.infer<typeof tenantEntry>;

const tenantName = z.string().regex(/^[A-Za-z0-9._-]{1,64}$/, 'is not a tenant: 1 to 64 of A-Z a-z 0-9 . _ -');

const tenantsFile = z.strictObject({
  default: tenantEntry.optional(),
  tenants: z.record(tenantName, tenantEntry).default({}),
});
type TenantsFile = z.infer<typeof tenantsFile>;

/** A tenant's cap for one window of time. */
export interface TenantBudget extends Readonly<Pick<z.infer<typeof tenantBudget>, 'window' | 'onExceed' | 'unpriced'>> {
  readonly capMicrocents: number;
}

export interface TenantSettings {
  readonly weight: number;
  /** Absent: no cap. */
  readonly budget?: TenantBudget;
  /** Absent: as `ARCHIVE_TTL_S` says. */
  readonly archiveTtlS?: number;
}

export interface Tenants {
  /** What holds for a tenant: its own entry, what that leaves out from `default`, else weight 1, no cap, and `ARCHIVE_TTL_S`. */
  of(tenant: string): TenantSettings;
}

/**
 * Reads the file of `MILLRACE_TENANTS`; without one no tenant has a cap and all weigh the same. Throws `invalid_config`
 * whose details list every problem.
 */
export function loadTenants(path: string | undefined): Tenants {
  return tenantsOf(path === undefined ? {} : readYamlFile(path, tenantsFile));
}

/** The same from settings that were read already. */
export function tenantsOf({ default: general = {}, tenants = {} }: Partial<TenantsFile>): Tenants {
  const fallback = settingsOf(general);
  const known = new Map(
    Object.entries(tenants).map(([tenant, entry]) => [tenant, settingsOf({ ...general, ...entry })]),
  );
  return { of: (tenant) => known.get(tenant) ?? fallback };
}

function settingsOf({ weight = 1, budget, archiveTtlS }: TenantEntry): TenantSettings {
  const capMicrocents = budgetCap(budget);
  if (!budget || capMicrocents === undefined) return defined({ weight, archiveTtlS });
  const { window, onExceed, unpriced } = budget;
  return defined({ weight, budget: { capMicrocents, window, onExceed, unpriced }, archiveTtlS });
}
