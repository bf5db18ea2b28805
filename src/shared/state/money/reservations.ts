import type { BudgetScope, OnExceed, Usage } from '../../contract/money.ts';
import type { PaidAttempt } from './accounts.ts';

/** Whose money an attempt is paid with. */
export interface Purse {
  readonly runId: string;
  readonly tenant: string;
  readonly agentId: string;
  readonly batch?: string;
  /** Runs above this one, whose caps hold for it, too. */
  readonly payers?: readonly { readonly runId: string; readonly capMicrocents: number; readonly onExceed: OnExceed }[];
  /** Of the run itself. Caps of batches live in the ledger; those of tenants in its settings. */
  readonly run?: {
    readonly capMicrocents: number;
    readonly onExceed: OnExceed;
    /** By the run's own record. An account that expired while the run waited begins with it. */
    readonly spentMicrocents?: number;
  };
}

/** One attempt that wants money before it is sent. Amounts are microcents. */
export interface ReserveRequest {
  readonly purse: Purse;
  /** Unique per attempt and holder, without white space. A repeat answers like the first. */
  readonly id: string;
  readonly provider: string;
  readonly model: string;
  /** The most that the call can cost, and the least that is still worth a call: the ledger gives what is left between. */
  readonly wanted: number;
  readonly least: number;
  /** A person said that this step may pass the caps: everything is counted, nothing refused. */
  readonly force: boolean;
}

/** Where an account stands. */
export interface AccountState {
  readonly scope: BudgetScope;
  readonly id: string;
  readonly capMicrocents: number;
  readonly spentMicrocents: number;
  readonly reservedMicrocents: number;
}

/**
 * - reserved: the call may cost `amount`, never more than was wanted; it is held in every account until it is settled,
 *   with what calls of this model cost beyond what was held for them before. `warnings` lists accounts that this passes
 *   although they have a cap, because their budget says `warn`
 * - busy: it would fit if calls that are under way turn out cheaper than the most they can cost. Try again, or wait
 * - exceeded: what is spent leaves no room, whatever the others cost
 */
export type Reservation =
  | { readonly kind: 'reserved'; readonly amount: number; readonly warnings: readonly AccountState[] }
  | { readonly kind: 'busy'; readonly account: AccountState }
  | { readonly kind: 'exceeded'; readonly account: AccountState; readonly onExceed: 'fail' | 'pause_for_approval' };

/** What became of a reserved, or never reserved, attempt. */
export interface Settlement {
  readonly purse: Purse;
  readonly id: string;
  readonly provider: string;
  readonly model: string;
  readonly usage: Usage;
  readonly costMicrocents: number;
  /**
   * What the answer should have cost by the estimate of its prompt. What it cost more shows how far estimates for this
   * model are off, however short the answer was. Absent where nothing was estimated.
   */
  readonly expectedMicrocents?: number;
  readonly priced: boolean;
  /** The call broke off before it reported its usage and may have been billed: what was reserved counts as spent. */
  readonly presumed: boolean;
  /** What it is the sum of, where that is not one attempt of `model`. Counted in their own rows. */
  readonly parts?: readonly PaidAttempt[];
}

/**
 * The money of runs, batches and tenants, shared by all workers. One call reaches all accounts of a purse, all or nothing.
 * Kept in Redis by `state/money/ledger.ts`, in memory by `local/stores/memory-ledger.ts`; both pass `test/contract/ledger.ts`.
 * Throws `queue_unavailable` when the store cannot be reached.
 */
export interface Ledger {
  /** Does any account of this purse have a cap? Without one nothing has to be reserved. Answers without a round trip. */
  isCapped(purse: Purse): boolean;
  reserve(request: ReserveRequest): Promise<Reservation>;
  /**
   * Gives the reservation back, counts what was paid, and adds to the cost counters of the day. Once per id. Answers
   * runs that wait for this money and fit now.
   */
  settle(settlement: Settlement): Promise<readonly string[]>;
  /** Gives a reservation back whose call was never sent. */
  release(purse: Purse, id: string): Promise<readonly string[]>;
  /**
   * Counts open reservations of a run as spent: their calls may have been billed, and nobody will say. For the next
   * holder of a run after a crash, and for one that ends it.
   */
  forfeit(purse: Purse): Promise<readonly string[]>;
  /**
   * Puts a run that was suspended for money in line for the account. `amount` is the least of the request that was refused.
   * True when it fits by now: the caller has to wake it, it was not put in line. Again for one in line changes nothing, so
   * it repairs a wake-up that got lost. A run leaves its lines when it asks for money again and when it is forfeited.
   */
  await(purse: Purse, account: Pick<AccountState, 'scope' | 'id'>, amount: number): Promise<boolean>;
  /** Takes runs from the lines whose money is there by now: after a top-up, or when a wake-up got lost. */
  pump(): Promise<readonly string[]>;
}
