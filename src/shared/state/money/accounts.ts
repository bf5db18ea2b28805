import { timeOfRunId } from '../../base/ids.ts';
import { z } from 'zod';
import {
  budgetOnExceed,
  windowOf,
  type BudgetScope,
  type BudgetView,
  type BudgetWindow,
  type OnExceed,
} from '../../contract/money.ts';
import type { Tenants } from '../../contract/tenants.ts';
import type { Keys } from '../keys.ts';

/** Whose money an attempt is paid with. */
export interface Accounts {
  readonly runId: string;
  readonly tenant: string;
  readonly agentId: string;
  readonly batch?: string | undefined;
  /** Its parents, whose caps bind it, too. */
  readonly payers?: readonly (Cap & { readonly runId: string })[] | undefined;
  /** Of the run itself. Caps of batches live in the ledger; those of tenants in its settings. */
  readonly run?: RunCap | undefined;
}

interface RunCap extends Cap {
  /** By the run's own record. An account that expired while the run waited begins with it. */
  readonly spentMicrocents?: number;
}

/** The figures of an account. */
export interface AccountState {
  readonly scope: BudgetScope;
  readonly id: string;
  readonly capMicrocents: number;
  readonly spentMicrocents: number;
  readonly reservedMicrocents: number;
}

/** An account in one of its windows, whose start is as `windowOf` names it. */
export type AccountWindow = Readonly<Pick<BudgetView, 'scope' | 'id' | 'window' | 'windowStart'>>;

const amount = z.coerce.number().int().min(0).default(0);

/**
 * Fields of an account in the ledger, a hash at `keys.account`. Amounts are microcents, absent means 0. The scripts of
 * the ledger know these names too.
 *
 * - `spent`: paid, or unconfirmed to be; `unconfirmed`: the part of it that the provider did not confirm
 * - `reserved`: kept for calls that are under way
 * - `cap` and `onExceed`: of a batch they are set by a producer; of a run and a tenant they are a copy, for operators to read
 * - `extra`: top-ups, on top of `cap`
 *
 * Further fields belong to the ledger's own scripts: `r:<id>` and `done` (reservations of a run, open and finished),
 * `x:<provider>/<model>` (by how much a call cost more than was reserved for it), `margin`. Names that begin with `t:` are
 * free for top-ups.
 */
const accountHash = z.object({
  spent: amount,
  unconfirmed: amount,
  reserved: amount,
  extra: amount,
  cap: z.coerce.number().int().min(0).optional(),
  onExceed: budgetOnExceed.default('fail'),
});

/** An account as operators see it, from its hash; an empty hash is an account that nothing was spent from. */
export function budgetViewOf(
  account: AccountWindow,
  hash: Readonly<Record<string, string>>,
  waiting: number,
  /** Where the account's own fields have none: a tenant's budget before its first call. */
  otherwise?: Cap,
): BudgetView {
  const stored = accountHash.parse({ onExceed: otherwise?.onExceed, ...hash });
  const cap = stored.cap ?? otherwise?.capMicrocents;
  return {
    ...account,
    ...(cap !== undefined && { capMicrocents: cap + stored.extra }),
    onExceed: stored.onExceed,
    spentMicrocents: stored.spent,
    unconfirmedMicrocents: stored.unconfirmed,
    reservedMicrocents: stored.reserved,
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

/** One account of a run, and the cap that its owner's settings give it. */
export interface AccountToCharge {
  readonly scope: BudgetScope;
  readonly id: string;
  /** As `windowOf` names it. */
  readonly window: string;
  /** Of a tenant's account: the window before. */
  readonly before?: string;
  /** `stored`: the account has its cap itself. */
  readonly cap: Cap | 'none' | 'stored';
  readonly ttlS: number;
}

export interface Cap {
  readonly capMicrocents: number;
  readonly onExceed: OnExceed;
}

/** The accounts that pay for a run's attempts, in the order in which they are asked: run, parents, batch, tenant. */
export function accountsOf(accounts: Accounts, tenants: Tenants, atMs: number): AccountToCharge[] {
  const { runId, tenant, batch, run, payers = [] } = accounts;
  const { budget } = tenants.of(tenant);
  return [
    runAccount(runId, run ?? 'none'),
    ...payers.map((payer) => runAccount(payer.runId, payer)),
    ...(batch === undefined ? [] : [batchAccount(batch)]),
    ...(budget === undefined ? [] : [tenantAccount(tenant, tenants, atMs)]),
  ];
}

/** An account that runs wait for, without one of these runs at hand. */
export function waitedFor(
  { scope, id }: Pick<AccountState, 'scope' | 'id'>,
  tenant: string,
  tenants: Tenants,
  atMs: number,
): AccountToCharge {
  if (scope === 'tenant') return tenantAccount(tenant, tenants, atMs);
  if (scope === 'batch') return batchAccount(id);
  return runAccount(id, 'stored');
}

function runAccount(id: string, cap: AccountToCharge['cap']): AccountToCharge {
  return { scope: 'run', id, window: 'total', cap, ttlS: runAccountTtlS };
}

function batchAccount(id: string): AccountToCharge {
  return { scope: 'batch', id, window: 'total', cap: 'stored', ttlS: accountTtlS('total') };
}

function tenantAccount(tenant: string, tenants: Tenants, atMs: number): AccountToCharge {
  const { budget } = tenants.of(tenant);
  const window = budget?.window ?? 'day';
  return {
    scope: 'tenant',
    id: tenant,
    window: windowOf(window, atMs),
    before: windowBefore(window, atMs),
    cap: budget ?? 'none',
    ttlS: accountTtlS(window),
  };
}

/** Nothing has to be reserved without a cap. Caps of batches are in the store, so a batch counts as capped. */
export function isCapped({ run, payers = [], batch, tenant }: Accounts, tenants: Tenants): boolean {
  return run !== undefined || payers.length > 0 || batch !== undefined || tenants.of(tenant).budget !== undefined;
}

/** A run's score in a wait queue: its age, or when it came where its id does not show the age. */
export function queuePosition(runId: string, nowMs: number): number {
  return timeOfRunId(runId, nowMs) ?? nowMs;
}

/** The log message when a ledger learns that a model costs more than estimated. */
export const dearerThanReserved = 'a call cost more than was reserved for it: later ones of its model reserve more';

interface Front {
  readonly keys: readonly string[];
  readonly args: readonly (string | number)[];
}

/** The front of KEYS and ARGV as `accounts.lua` reads it. */
export function accountsFront(keys: Keys, tenant: string, charged: readonly AccountToCharge[]): Front {
  const last = charged.at(-1);
  const before = last?.before;
  return {
    keys: [
      ...charged.flatMap((account) => accountKeys(keys, tenant, account)),
      ...(last && before !== undefined ? [keys.account(tenant, last.scope, last.id, before)] : []),
    ],
    args: [
      charged.length,
      ...(last && before !== undefined ? [last.window, before] : ['-', '-']),
      ...charged.flatMap(capArgs),
    ],
  };
}

/** The same for one account whose wait queue is read: nothing is booked, so no other window matters. */
export function queueFront(keys: Keys, tenant: string, account: AccountToCharge): Front {
  return { keys: accountKeys(keys, tenant, account), args: [1, '-', '-', ...capArgs(account)] };
}

function accountKeys(keys: Keys, tenant: string, { scope, id, window }: AccountToCharge): string[] {
  return [
    keys.account(tenant, scope, id, window),
    keys.accountWaiting(tenant, scope, id),
    keys.accountNeeds(tenant, scope, id),
    keys.accountPromises(tenant, scope, id),
  ];
}

function capArgs({ cap, ttlS }: AccountToCharge): (string | number)[] {
  if (cap === 'stored') return ['', '', ttlS];
  if (cap === 'none') return ['none', '', ttlS];
  return [cap.capMicrocents, cap.onExceed, ttlS];
}
