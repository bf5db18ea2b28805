import { pairsOf } from '../../base/collections.ts';
import { budgetWindow, windowOf, type BudgetView, type BudgetWindow } from '../../contract/money.ts';
import { loadScript, runScript } from '../script.ts';
import type { KeySpace } from '../keys.ts';
import { accountTtlS, budgetViewOf, runAccountTtlS, type AccountWindow, type Cap } from './accounts.ts';

const setScript = loadScript(import.meta.url, './set-budget.lua');
const topUpScript = loadScript(import.meta.url, './top-up.lua');

/** An account of a tenant, as a producer reads and changes it. */
export interface BudgetAccount extends KeySpace {
  readonly tenant: string;
  readonly account: AccountWindow;
  /** A cap that is not written in the account yet. */
  readonly known?: Cap | undefined;
}

/** The account now. */
export async function readBudget({ redis, known, ...budget }: BudgetAccount): Promise<BudgetView> {
  const [account, waiting] = keysOf(budget);
  const [hash, runs] = await Promise.all([redis.hgetall(account), redis.zcard(waiting)]);
  return budgetViewOf(budget.account, hash, runs, known);
}

/** Sets the cap of an account; top-ups stay. */
export async function setBudget({ redis, ...budget }: BudgetAccount, cap: Cap): Promise<BudgetView> {
  const { account, keys, tenant } = budget;
  const args = [cap.capMicrocents, cap.onExceed, ttlOf(account), account.id, Date.now(), maxListed];
  const doing = 'change of a budget';
  const [fields, waiting] = (await runScript(redis, setScript, [...keysOf(budget), keys.budgetsSet(tenant)], args, {
    doing,
  })) as [string[], number];
  return budgetViewOf(budget.account, Object.fromEntries(pairsOf(fields)), waiting);
}

const maxListed = 500;

/**
 * The batches of a tenant that a budget was set for, the latest first, and after them the runs that others wait for the money of:
 * at most 500. Those whose account is gone leave the list.
 */
export async function listedAccounts({ redis, keys }: KeySpace, tenant: string): Promise<readonly AccountWindow[]> {
  const list = keys.budgetsSet(tenant);
  const [batches, waiting] = await Promise.all([
    redis.zrange(list, '+inf', '-inf', 'BYSCORE', 'REV'),
    redis.smembers(keys.accountsWaiting(tenant)),
  ]);
  const alive = await Promise.all(batches.map((id) => redis.exists(keys.account(tenant, 'batch', id, 'total'))));
  const gone = batches.filter((_, i) => alive[i] === 0);
  if (gone.length > 0) await redis.zrem(list, ...gone);
  if (gone.length < batches.length) await redis.expire(list, accountTtlS('total') * 2);
  const listed = new Set(batches.filter((_, i) => alive[i] === 1).map((id) => `batch:${id}`));
  for (const name of waiting) if (!name.startsWith('tenant:')) listed.add(name);
  return [...listed].slice(0, maxListed).map((name) => {
    const colon = name.indexOf(':');
    return accountInTotal(name.startsWith('batch:') ? 'batch' : 'run', name.slice(colon + 1));
  });
}

/** The account after a top-up. `added` is false for one with a key that was there before. */
export interface ToppedUp {
  readonly view: BudgetView;
  readonly added: boolean;
}

/** Adds money, once for each key. Answers undefined for an account without a cap, to which nothing is added. */
export async function topUp(
  { redis, known, ...budget }: BudgetAccount,
  microcents: number,
  key: string | undefined,
): Promise<ToppedUp | undefined> {
  const args = [microcents, key === undefined ? '' : `t:${key}`, ttlOf(budget.account), known ? 1 : 0];
  const doing = 'top-up of a budget';
  const reply = (await runScript(redis, topUpScript, keysOf(budget), args, { doing })) as
    | [0]
    | [1, string[], number, 0 | 1];
  if (reply[0] === 0) return undefined;
  const view = budgetViewOf(budget.account, Object.fromEntries(pairsOf(reply[1])), reply[2], known);
  return { view, added: reply[3] === 1 };
}

function keysOf({ keys, tenant, account: { scope, id, windowStart } }: Omit<BudgetAccount, 'redis'>): [string, string] {
  return [keys.account(tenant, scope, id, windowStart), keys.accountWaiting(tenant, scope, id)];
}

function ttlOf({ scope, window }: AccountWindow): number {
  return scope === 'run' ? runAccountTtlS : accountTtlS(window);
}

/** The account of a run or a batch, which has no windows. */
export function accountInTotal(scope: 'run' | 'batch', id: string): AccountWindow {
  return { scope, id, window: 'total', windowStart: 'total' };
}

/** The account of a tenant in the present window. */
export function tenantAccountNow(id: string, window: BudgetWindow): AccountWindow {
  return { scope: 'tenant', id, window, windowStart: windowOf(window, Date.now()) };
}

/** The same where the tenant's budget is not known: a worker that knows it has written the cap into the account. */
export async function tenantAccountInUse(id: string, { redis, keys }: KeySpace): Promise<AccountWindow> {
  const windows = budgetWindow.options.map((window) => tenantAccountNow(id, window));
  const caps = await Promise.all(
    windows.map(({ windowStart }) => redis.hexists(keys.account(id, 'tenant', id, windowStart), 'cap')),
  );
  return windows[Math.max(0, caps.indexOf(1))] as AccountWindow;
}
