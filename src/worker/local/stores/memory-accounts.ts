import type { BudgetScope, OnExceed } from '../../../shared/contract/money.ts';
import type { PurseAccount } from '../../../shared/state/money/accounts.ts';

/** Accounts that are kept; of more, those that were not used for longest and hold nothing are forgotten. */
const mostAccounts = 10_000;

export interface Account {
  readonly scope: BudgetScope;
  readonly id: string;
  readonly window: string;
  cap: number | undefined;
  onExceed: OnExceed;
  extra: number;
  spent: number;
  presumed: number;
  reserved: number;
  /** By model: the largest amount by which a call cost more than was held for it. */
  readonly excess: Map<string, number>;
}

export type AccountName = Pick<Account, 'scope' | 'id'>;

interface Waiter {
  readonly place: number;
  readonly need: number;
  /** Told of its money: nobody else is told of it until this time. */
  readonly toldUntilMs?: number;
}

/** How long money is kept for a run that was told of it. */
const toldMs = 10_000;

/** Where an account stands by its cap and top-ups. Without a cap, or when it only warns, there is room for everything. */
export function roomOf({ cap, onExceed, extra, spent, reserved }: Account): { total: number; left: number } {
  if (cap === undefined || onExceed === 'warn') return { total: Infinity, left: Infinity };
  const total = cap + extra - spent;
  return { total, left: total - reserved };
}

/** The accounts and lines of one tenant. */
export class MemoryAccounts {
  readonly #accounts = new Map<string, Account>();
  readonly #lines = new Map<string, Map<string, Waiter>>();

  /** The account, made when it is new, with the cap that settings give it. */
  get({ scope, id, window, cap }: PurseAccount): Account {
    const name = `${scope}:${id}:${window}`;
    const account = this.#accounts.get(name) ?? emptyAccount(scope, id, window);
    if (cap === 'none') account.cap = undefined;
    else if (cap !== 'stored') {
      account.cap = cap.capMicrocents;
      account.onExceed = cap.onExceed;
    }
    this.#accounts.delete(name);
    this.#accounts.set(name, account);
    if (this.#accounts.size > mostAccounts) this.#forgetOne();
    return account;
  }

  /** Puts a run in line. One that is in it keeps its place. */
  wait({ scope, id }: Account, runId: string, place: number, need: number): void {
    const name = `${scope}:${id}`;
    const line = this.#lines.get(name) ?? new Map<string, Waiter>();
    line.set(runId, { place: line.get(runId)?.place ?? place, need });
    this.#lines.set(name, line);
  }

  leave({ scope, id }: AccountName, runId: string): void {
    const line = this.#lines.get(`${scope}:${id}`);
    line?.delete(runId);
    if (line?.size === 0) this.#lines.delete(`${scope}:${id}`);
  }

  waiting(name: AccountName): number {
    return this.#lineOf(name).filter(([, { toldUntilMs }]) => toldUntilMs === undefined).length;
  }

  /** Scope and id of the accounts that runs wait for. */
  waitedFor(): AccountName[] {
    return [...this.#lines.keys()].map((name) => {
      const colon = name.indexOf(':');
      return { scope: name.slice(0, colon) as BudgetScope, id: name.slice(colon + 1) };
    });
  }

  /**
   * Runs in line whose money is there, oldest first and all together. One that would not fit even if all calls under way
   * were free keeps nobody from what is left.
   */
  whoFits(account: Account, nowMs: number): string[] {
    const { total, left } = roomOf(account);
    const fits: string[] = [];
    let free = left - this.#promised(account, nowMs);
    for (const [runId, { need, toldUntilMs }] of this.#lineOf(account)) {
      if (toldUntilMs !== undefined || need > total) continue;
      free -= need;
      if (free < 0) break;
      fits.push(runId);
    }
    return fits;
  }

  takeWhoFits(account: Account, nowMs: number): string[] {
    const fits = this.whoFits(account, nowMs);
    for (const runId of fits) this.tell(account, runId, nowMs);
    return fits;
  }

  tell({ scope, id }: AccountName, runId: string, nowMs: number): void {
    const line = this.#lines.get(`${scope}:${id}`);
    const waiter = line?.get(runId);
    if (waiter) line?.set(runId, { ...waiter, toldUntilMs: nowMs + toldMs });
  }

  /** Money that runs were told of shortly before and have not asked for yet. */
  #promised(account: Account, nowMs: number): number {
    let sum = 0;
    for (const [runId, { need, toldUntilMs }] of this.#lineOf(account)) {
      if (toldUntilMs === undefined) continue;
      if (toldUntilMs <= nowMs) this.leave(account, runId);
      else sum += need;
    }
    return sum;
  }

  #lineOf({ scope, id }: AccountName): [string, Waiter][] {
    const line = [...(this.#lines.get(`${scope}:${id}`) ?? [])];
    return line.sort(([a, x], [b, y]) => x.place - y.place || (a < b ? -1 : 1));
  }

  #forgetOne(): void {
    for (const [name, account] of this.#accounts) {
      if (account.reserved > 0 || this.waiting(account) > 0) continue;
      this.#accounts.delete(name);
      return;
    }
  }
}

function emptyAccount(scope: BudgetScope, id: string, window: string): Account {
  const zeros = { extra: 0, spent: 0, presumed: 0, reserved: 0 };
  return { scope, id, window, cap: undefined, onExceed: 'fail', ...zeros, excess: new Map() };
}
