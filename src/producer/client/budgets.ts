import { z } from 'zod';
import { assertNever, RunError } from '../../shared/base/errors.ts';
import { publicId } from '../../shared/base/ids.ts';
import {
  budgetSettings,
  capMicrocents,
  capUsd,
  maxMicrocents,
  budgetScope,
  usdToMicrocents,
  type BudgetScope,
  type BudgetView,
  type OnExceed,
  budgetCap,
} from '../../shared/contract/money.ts';
import { requireOperator, checkRunId } from './accept/validate.ts';
import { noteDeed } from './audit/note-deed.ts';
import { reach, type Reached, type TenantClient } from './client-core.ts';
import { parseAs } from '../../shared/base/problems.ts';
import type { AccountWindow, Cap } from '../../shared/state/money/accounts.ts';
import {
  accountInTotal,
  listedAccounts,
  readBudget,
  setBudget,
  tenantAccountInUse,
  tenantAccountNow,
  topUp,
  type BudgetAccount,
} from '../../shared/state/money/budgets.ts';
import { loadRecord } from './read-run.ts';

export interface BudgetSettings extends Readonly<Omit<z.input<typeof budgetSettings>, 'onExceed'>> {
  /** Before a call that could pass the cap: `fail` (the default), `pause_for_approval` or `warn`. */
  readonly onExceed?: OnExceed;
}

/** More money for an account. Give one of the two. */
export const topUpRequest = z
  .strictObject({ usd: capUsd.optional(), microcents: capMicrocents.optional() })
  .refine((t) => (t.usd === undefined) !== (t.microcents === undefined), 'give usd or microcents, one of them');

export type TopUpRequest = Readonly<z.input<typeof topUpRequest>>;

export interface TopUpOptions {
  /** The same key again adds nothing, for as long as the account is kept. */
  readonly idempotencyKey?: string;
}

/** The budgets of one tenant. Every method throws `RunError`, like the client that it belongs to. */
export interface Budgets {
  /**
   * The tenant's own account first, then the batches that a budget was set for, the latest first, and other accounts that runs wait
   * for: at most 500.
   */
  list(): Promise<readonly BudgetView[]>;
  /**
   * What an account may spend and has spent: a run's, a batch's, or the tenant's own in its present window. One that
   * nothing was spent from has zeros. Throws `not_found` for another tenant, `run_not_found`, `invalid_id`.
   */
  get(scope: BudgetScope, id: string): Promise<BudgetView>;
  /**
   * Sets what all runs that name this batch may cost together. Set again it replaces the cap; what was topped up stays.
   * Runs that wait for money go on by themselves when the new cap lets them. Throws `validation`, `invalid_id`.
   */
  set(scope: 'batch', id: string, settings: BudgetSettings): Promise<BudgetView>;
  /**
   * Adds money to an account, to a tenant's for its present window. Runs that wait for it go on by themselves within
   * seconds. Throws `validation` also for an account without a cap, `forbidden` for a caller and the tenant's money,
   * `not_found`, `run_not_found`, `invalid_id`.
   */
  topUp(scope: BudgetScope, id: string, request: TopUpRequest, options?: TopUpOptions): Promise<BudgetView>;
}

/** The budgets over Redis. */
export class RedisBudgets implements Budgets {
  readonly #client: TenantClient;

  constructor(client: TenantClient) {
    this.#client = client;
  }

  async list(): Promise<readonly BudgetView[]> {
    return await reach(this.#client, async (at) => {
      const { redis, core, tenant } = at;
      const { keys } = core;
      const own = await readBudget(await locate({ scope: 'tenant', id: tenant }, at));
      const others = await listedAccounts({ redis, keys }, tenant);
      return [own, ...(await Promise.all(others.map((account) => readBudget({ redis, keys, tenant, account }))))];
    });
  }

  async get(scope: BudgetScope, id: string): Promise<BudgetView> {
    const name = checkName(scope, id, this.#client);
    return await reach(this.#client, async (at) => readBudget(await locate(name, at)));
  }

  async set(scope: 'batch', id: string, settings: BudgetSettings): Promise<BudgetView> {
    const parsed = parseAs(budgetSettings, settings, 'the budget is not valid');
    const name = checkName(scope, id, this.#client);
    if (name.scope !== 'batch') throw new RunError('validation', 'only the budget of a batch can be set');
    const { maxCostUsd, maxCostMicrocents, onExceed } = parsed;
    const cap = { capMicrocents: microcentsOf(maxCostUsd, maxCostMicrocents, 'maxCostUsd'), onExceed };
    const account = accountInTotal('batch', name.id);
    return await reach(this.#client, async (at) => {
      const { core, redis, tenant } = at;
      const view = await setBudget({ redis, keys: core.keys, tenant, account }, cap);
      const { capMicrocents: microcents, onExceed: then } = cap;
      await noteDeed(at, {
        kind: 'budget',
        change: 'set',
        scope: 'batch',
        accountId: name.id,
        microcents,
        onExceed: then,
      });
      return view;
    });
  }

  async topUp(
    scope: BudgetScope,
    id: string,
    request: TopUpRequest,
    { idempotencyKey }: TopUpOptions = {},
  ): Promise<BudgetView> {
    const { usd: dollars, microcents: exact } = parseAs(topUpRequest, request, 'the top-up is not valid');
    const name = checkName(scope, id, this.#client);
    if (name.scope === 'tenant') requireOperator(this.#client, 'adding money to a tenant');
    const topUp = topUpOf(dollars, exact, 'usd', idempotencyKey);
    return await reach(this.#client, (at) => topUpAccount(name, topUp, at));
  }
}

/** `key`: the same one again adds nothing. */
export interface TopUp {
  readonly microcents: number;
  readonly key: string | undefined;
}

/** A top-up from its amount in either unit. Throws `validation` for less than a microcent and for too much. */
export function topUpOf(
  dollars: number | undefined,
  exact: number | undefined,
  field: string,
  idempotencyKey: string | undefined,
): TopUp {
  const key = parseAs(publicId.optional(), idempotencyKey, 'the idempotency key is not valid');
  return { microcents: microcentsOf(dollars, exact, field), key };
}

function microcentsOf(dollars: number | undefined, exact: number | undefined, field: string): number {
  const amount = exact ?? usdToMicrocents(dollars ?? 0);
  if (amount >= 1 && amount <= maxMicrocents) return amount;
  const message = amount < 1 ? 'is less than one microcent (0.00000001 USD)' : 'is more than 10,000,000 USD';
  throw new RunError('validation', `${field} ${message}`, { details: [{ path: field, message }] });
}

/** Throws `validation`, `invalid_id`, `run_not_found`, or `not_found` for another tenant. */
function checkName(scope: unknown, id: unknown, { tenant }: TenantClient): AccountName {
  const checked = parseAs(budgetScope, scope, 'the scope is not valid');
  switch (checked) {
    case 'run':
      return { scope: checked, id: checkRunId(id) };
    case 'batch':
      return { scope: checked, id: parseAs(publicId, id, 'the batch id is not valid', 'invalid_id') };
    case 'tenant':
      if (id !== tenant) throw new RunError('not_found', 'there is no such tenant; you can only see your own');
      return { scope: checked, id: tenant };
    default:
      return assertNever(checked);
  }
}

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

/** Adds money, once for each key. Throws `validation` for an account without a cap. */
export async function topUpAccount(name: AccountName, { microcents, key }: TopUp, at: Reached): Promise<BudgetView> {
  const topped = await topUp(await locate(name, at), microcents, key);
  if (topped?.added)
    await noteDeed(at, { kind: 'budget', change: 'top_up', scope: name.scope, accountId: name.id, microcents });
  if (topped) return topped.view;
  throw new RunError('validation', `${name.scope} ${name.id} has no cap, so there is nothing to add to`);
}

/** Where the account is kept, and its cap as far as it is known elsewhere. Throws `run_not_found`. */
async function locate({ scope, id }: AccountName, at: Reached): Promise<BudgetAccount> {
  const { core, redis, tenant } = at;
  const { keys } = core;
  const account = (window: AccountWindow, known?: Cap) => ({ redis, keys, tenant, account: window, known });
  switch (scope) {
    case 'batch':
      return account(accountInTotal(scope, id));
    case 'run': {
      const { budget } = (await loadRecord(id, at)).request;
      const capMicrocents = budgetCap(budget);
      const isCapped = budget && capMicrocents !== undefined;
      return account(accountInTotal(scope, id), isCapped ? { capMicrocents, onExceed: budget.onExceed } : undefined);
    }
    case 'tenant': {
      const { budget } = core.tenants.of(id);
      return budget
        ? account(tenantAccountNow(id, budget.window), budget)
        : account(await tenantAccountInUse(id, { redis, keys }));
    }
    default:
      return assertNever(scope);
  }
}
