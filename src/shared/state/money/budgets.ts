import { pairsOf } from '../../base/pairs.ts';
import type { BudgetView } from '../../contract/money.ts';
import type { RedisConnection } from '../connect.ts';
import { loadScript, runScript } from '../script.ts';
import type { Keys } from '../keys.ts';
import { accountTtlS, budgetViewOf, runAccountTtlS, type AccountKeySpace, type Cap } from './accounts.ts';

const setScript = loadScript(import.meta.url, './set-budget.lua');
const topUpScript = loadScript(import.meta.url, './top-up.lua');

/** An account of a tenant, as a producer reads and changes it. */
export interface BudgetAccount {
  readonly redis: RedisConnection;
  readonly keys: Keys;
  readonly tenant: string;
  readonly place: AccountKeySpace;
  /** A cap that is not written in the account yet. */
  readonly known?: Cap | undefined;
}

/** The account now. */
export async function readBudget({ redis, known, ...budget }: BudgetAccount): Promise<BudgetView> {
  const [account, waiting] = keysOf(budget);
  const [hash, runs] = await Promise.all([redis.hgetall(account), redis.zcard(waiting)]);
  return budgetViewOf(budget.place, hash, runs, known);
}

/** Sets the cap of an account; top-ups stay. */
export async function setBudget(
  { redis, ...budget }: BudgetAccount,
  { capMicrocents, onExceed }: Cap,
): Promise<BudgetView> {
  const args = [capMicrocents, onExceed, ttlOf(budget.place)];
  const doing = 'change of a budget';
  const [fields, waiting] = (await runScript(redis, setScript, keysOf(budget), args, { doing })) as [string[], number];
  return budgetViewOf(budget.place, Object.fromEntries(pairsOf(fields)), waiting);
}

/** Adds money, once for each key. Answers undefined for an account without a cap, to which nothing is added. */
export async function topUp(
  { redis, known, ...budget }: BudgetAccount,
  microcents: number,
  key: string | undefined,
): Promise<BudgetView | undefined> {
  const args = [microcents, key === undefined ? '' : `t:${key}`, ttlOf(budget.place), known ? 1 : 0];
  const doing = 'top-up of a budget';
  const reply = (await runScript(redis, topUpScript, keysOf(budget), args, { doing })) as [0] | [1, string[], number];
  if (reply[0] === 0) return undefined;
  return budgetViewOf(budget.place, Object.fromEntries(pairsOf(reply[1])), reply[2], known);
}

function keysOf({ keys, tenant, place: { scope, id, windowStart } }: Omit<BudgetAccount, 'redis'>): [string, string] {
  return [keys.account(tenant, scope, id, windowStart), keys.accountWaiting(tenant, scope, id)];
}

function ttlOf({ scope, window }: AccountKeySpace): number {
  return scope === 'run' ? runAccountTtlS : accountTtlS(window);
}
