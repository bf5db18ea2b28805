import { assertNever, RunError } from '../../shared/base/errors.ts';
import { accountField, type AccountKeySpace, type Cap } from '../../shared/state/money/accounts.ts';
import { readBudget, setBudget, topUp } from '../../shared/state/money/budgets.ts';
import {
  budgetCap,
  budgetScope,
  budgetWindow,
  windowOf,
  type BudgetScope,
  type BudgetView,
  type BudgetWindow,
} from '../../shared/contract/money.ts';
import type { RedisConnection } from '../../shared/state/connect.ts';
import type { ClientCore } from './client-core.ts';
import { loadRecord } from './read-run.ts';

/** Whose money: a run, a batch, or the tenant. */
export interface AccountName {
  readonly scope: BudgetScope;
  readonly id: string;
}

/** The account that a pending item of kind `budget` names as `scope:id`, or undefined. */
export function parseAccountName(name: string): AccountName | undefined {
  const at = name.indexOf(':');
  const scope = budgetScope.safeParse(name.slice(0, at));
  return scope.success ? { scope: scope.data, id: name.slice(at + 1) } : undefined;
}

/** The account now. Throws `run_not_found` for a run that the tenant does not have. */
export async function readAccount(
  name: AccountName,
  tenant: string,
  core: ClientCore,
  redis: RedisConnection,
): Promise<BudgetView> {
  return await readBudget({ redis, keys: core.keys, tenant, ...(await locate(name, tenant, core, redis)) });
}

/** Sets the cap of a batch; top-ups stay. */
export async function setBatchCap(
  id: string,
  tenant: string,
  cap: Cap,
  { keys }: ClientCore,
  redis: RedisConnection,
): Promise<BudgetView> {
  return await setBudget({ redis, keys, tenant, place: wholePlace('batch', id) }, cap);
}

/** Adds money, once for each key. Throws `validation` for an account without a cap. */
export async function topUpAccount(
  name: AccountName,
  tenant: string,
  { microcents, key }: { readonly microcents: number; readonly key: string | undefined },
  core: ClientCore,
  redis: RedisConnection,
): Promise<BudgetView> {
  const budget = { redis, keys: core.keys, tenant, ...(await locate(name, tenant, core, redis)) };
  const view = await topUp(budget, microcents, key);
  if (view) return view;
  throw new RunError('validation', `${name.scope} ${name.id} has no cap, so there is nothing to add to`);
}

/** Where the account is kept, and its cap as far as it is known elsewhere. */
async function locate(
  { scope, id }: AccountName,
  tenant: string,
  core: ClientCore,
  redis: RedisConnection,
): Promise<{ readonly place: AccountKeySpace; readonly known: Cap | undefined }> {
  switch (scope) {
    case 'batch':
      return { place: wholePlace(scope, id), known: undefined };
    case 'run': {
      const { budget } = (await loadRecord(core, redis, id, tenant)).request;
      const capMicrocents = budgetCap(budget);
      const known = budget && capMicrocents !== undefined ? { capMicrocents, onExceed: budget.onExceed } : undefined;
      return { place: wholePlace(scope, id), known };
    }
    case 'tenant': {
      const { budget } = core.tenants.of(id);
      if (!budget) return { place: await windowInUse(id, core, redis), known: undefined };
      return { place: tenantPlace(id, budget.window), known: budget };
    }
    default:
      return assertNever(scope);
  }
}

function wholePlace(scope: BudgetScope, id: string): AccountKeySpace {
  return { scope, id, window: 'total', windowStart: 'total' };
}

/** A client without `tenantsFile` knows no window; the account that workers have written a cap into shows it. */
async function windowInUse(tenant: string, { keys }: ClientCore, redis: RedisConnection): Promise<AccountKeySpace> {
  const places = budgetWindow.options.map((window) => tenantPlace(tenant, window));
  const caps = await Promise.all(
    places.map(({ windowStart }) =>
      redis.hexists(keys.account(tenant, 'tenant', tenant, windowStart), accountField.cap),
    ),
  );
  return places[Math.max(0, caps.indexOf(1))] as AccountKeySpace;
}

function tenantPlace(id: string, window: BudgetWindow): AccountKeySpace {
  return { scope: 'tenant', id, window, windowStart: windowOf(window, Date.now()) };
}
