import { systemClock, type Clock } from '../../src/shared/base/clock.ts';
import { newRunId } from '../../src/shared/base/ids.ts';
import { zeroUsage, type BudgetView, type CostRow, type OnExceed } from '../../src/shared/contract/money.ts';
import type { Tenants } from '../../src/shared/contract/tenants.ts';
import type { Ledger, ReserveRequest, Settlement } from '../../src/shared/state/money/ledger.ts';
import type { AccountState, Accounts } from '../../src/shared/state/money/accounts.ts';

export type AccountName = Pick<AccountState, 'scope' | 'id'>;

/** A ledger with what producers do to its accounts. Everything belongs to the tenant `acme`. */
export interface LedgerWorld {
  readonly ledger: Ledger;
  readonly clock: TestClock;
  readonly setBudget: (batch: string, capMicrocents: number, onExceed?: OnExceed) => Promise<void>;
  readonly topUp: (account: AccountName, amount: number) => Promise<void>;
  readonly view: (account: AccountName) => Promise<BudgetView>;
  readonly costs: (day: string) => Promise<CostRow[]>;
}

export type MakeLedgerWorld = (tenants?: Tenants) => Promise<LedgerWorld>;

/** A clock whose wall time a test sets. */
export class TestClock implements Clock {
  #now = Date.UTC(2026, 10, 21, 12, 30);
  now = () => this.#now;
  monotonic = () => systemClock.monotonic();
  sleep = (ms: number, signal?: AbortSignal) => systemClock.sleep(ms, signal);
  set(iso: string): void {
    this.#now = Date.parse(iso);
  }
}

let made = 0;

/** Run ids in the order in which they were made. */
export function aRunId(): string {
  return newRunId(Date.UTC(2026, 10, 21) + 1_000 * made++);
}

export function someAccounts(changes: Partial<Accounts> = {}): Accounts {
  return { runId: aRunId(), tenant: 'acme', agentId: 'support', ...changes };
}

/** A accounts whose run has a cap of its own. */
export function capped(capMicrocents: number, onExceed: OnExceed = 'fail', changes: Partial<Accounts> = {}): Accounts {
  return someAccounts({ run: { capMicrocents, onExceed }, ...changes });
}

export function ask(
  accounts: Accounts,
  id: string,
  wanted: number,
  changes: Partial<ReserveRequest> = {},
): ReserveRequest {
  return { accounts, id, provider: 'openai', model: 'm', wanted, least: wanted, force: false, ...changes };
}

export function paid(
  accounts: Accounts,
  id: string,
  costMicrocents: number,
  changes: Partial<Settlement> = {},
): Settlement {
  const attempt = { accounts, id, provider: 'openai', model: 'm', usage: zeroUsage, costMicrocents };
  return { ...attempt, priced: true, unconfirmed: false, ...changes };
}

export const own = ({ runId }: Accounts): AccountName => ({ scope: 'run', id: runId });
export const batch = (id: string): AccountName => ({ scope: 'batch', id });
export const tenant: AccountName = { scope: 'tenant', id: 'acme' };
