import { timeOfRunId } from '../../base/ids.ts';
import { accountTtlS, runAccountTtlS, windowBefore } from './accounts.ts';
import { windowOf, type BudgetScope, type OnExceed } from '../../contract/money.ts';
import type { Tenants } from '../../contract/tenants.ts';
import type { AccountState, Purse } from './reservations.ts';

/** One account of a purse, and the cap that its owner's settings give it. */
export interface PurseAccount {
  readonly scope: BudgetScope;
  readonly id: string;
  /** As `windowOf` names it. */
  readonly window: string;
  /** Of a tenant's account: the window before. */
  readonly before?: string;
  /** `stored`: what the account itself says. */
  readonly cap: Cap | 'none' | 'stored';
  readonly ttlS: number;
}

export interface Cap {
  readonly capMicrocents: number;
  readonly onExceed: OnExceed;
}

/** The accounts that pay for a run's attempts, in the order in which they are asked: run, runs above, batch, tenant. */
export function accountsOf(
  { runId, tenant, batch, run, payers = [] }: Purse,
  tenants: Tenants,
  atMs: number,
): PurseAccount[] {
  const own: PurseAccount = { scope: 'run', id: runId, window: 'total', cap: run ?? 'none', ttlS: runAccountTtlS };
  const { budget } = tenants.of(tenant);
  return [
    own,
    ...payers.map((payer): PurseAccount => ({
      scope: 'run',
      id: payer.runId,
      window: 'total',
      cap: payer,
      ttlS: runAccountTtlS,
    })),
    ...(batch === undefined ? [] : [batchAccount(batch)]),
    ...(budget === undefined ? [] : [tenantAccount(tenant, tenants, atMs)]),
  ];
}

/** An account that runs wait for, as those see it who are not of its purse. */
export function waitedFor(
  { scope, id }: Pick<AccountState, 'scope' | 'id'>,
  tenant: string,
  tenants: Tenants,
  atMs: number,
): PurseAccount {
  if (scope === 'tenant') return tenantAccount(tenant, tenants, atMs);
  if (scope === 'batch') return batchAccount(id);
  return { scope, id, window: 'total', cap: 'stored', ttlS: runAccountTtlS };
}

function batchAccount(id: string): PurseAccount {
  return { scope: 'batch', id, window: 'total', cap: 'stored', ttlS: accountTtlS('total') };
}

function tenantAccount(tenant: string, tenants: Tenants, atMs: number): PurseAccount {
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
export function isCapped({ run, payers = [], batch, tenant }: Purse, tenants: Tenants): boolean {
  return run !== undefined || payers.length > 0 || batch !== undefined || tenants.of(tenant).budget !== undefined;
}

/** A run's place in a line: by its age, or by when it came where the age cannot be seen. */
export function placeInLine(runId: string, nowMs: number): number {
  return timeOfRunId(runId, nowMs) ?? nowMs;
}

/** What the log says when a ledger learns that a model costs more than callers reckon. */
export const dearerThanHeld = 'a call cost more than was held for it: later ones of its model hold more';
