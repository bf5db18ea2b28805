import { assertNever, RunError } from '../../shared/base/errors.ts';
import type { AccountWindow, Cap } from '../../shared/state/money/accounts.ts';
import {
  accountInTotal,
  readBudget,
  setBudget,
  tenantAccountInUse,
  tenantAccountNow,
  topUp,
} from '../../shared/state/money/budgets.ts';
import { budgetCap, budgetScope, type BudgetScope, type BudgetView } from '../../shared/contract/money.ts';
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
  return await setBudget({ redis, keys, tenant, account: accountInTotal('batch', id) }, cap);
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
): Promise<{ readonly account: AccountWindow; readonly known: Cap | undefined }> {
  switch (scope) {
    case 'batch':
      return { account: accountInTotal(scope, id), known: undefined };
    case 'run': {
      const { budget } = (await loadRecord(core, redis, id, tenant)).request;
      const capMicrocents = budgetCap(budget);
      const known = budget && capMicrocents !== undefined ? { capMicrocents, onExceed: budget.onExceed } : undefined;
      return { account: accountInTotal(scope, id), known };
    }
    case 'tenant': {
      const { budget } = core.tenants.of(id);
      if (!budget) return { account: await tenantAccountInUse(id, redis, core.keys), known: undefined };
      return { account: tenantAccountNow(id, budget.window), known: budget };
    }
    default:
      return assertNever(scope);
  }
}
