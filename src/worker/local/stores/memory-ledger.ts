import type { Clock } from '../../../shared/base/clock.ts';
import { costIncrements, costRowsOf, costSource } from '../../../shared/state/money/costs.ts';
import { windowOf, type BudgetView, type CostRow } from '../../../shared/contract/money.ts';
import type { Log } from '../../../shared/base/log.ts';
import type { Tenants } from '../../../shared/contract/tenants.ts';
import type { Ledger, Reservation, ReserveRequest, Settlement } from '../../../shared/state/money/ledger.ts';
import {
  type AccountState,
  type Purse,
  accountsOf,
  dearerThanHeld,
  isCapped,
  placeInLine,
  waitedFor,
  type Cap,
  type PurseAccount,
} from '../../../shared/state/money/accounts.ts';
import { MemoryAccounts, roomOf, type Account, type AccountName } from './memory-accounts.ts';

/** Of what is remembered to do things once, the newest are kept. */
const mostFinished = 10_000;
const mostCostDays = 1_000;

/** What is held for an attempt, or was. `presumed` is what of it counts as spent although nobody confirmed it. */
interface Held {
  readonly runId: string;
  readonly held: number;
  readonly given: number;
  readonly presumed: number;
  readonly accounts: readonly Account[];
  readonly source: string;
  readonly final: boolean;
}

export interface MemoryLedgerOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly tenants: Tenants;
}

/** The ledger of one process: the same promises as the one in Redis, for as long as the process lives. */
export function memoryLedger(options: MemoryLedgerOptions): MemoryLedger {
  return new MemoryLedger(options);
}

class MemoryLedger implements Ledger {
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #tenants: Tenants;
  readonly #accounts = new Map<string, MemoryAccounts>();
  readonly #open = new Map<string, Held>();
  readonly #finished = new Map<string, Held>();
  readonly #margins = new Map<string, number>();
  /** Which reservation of a run was told that an account is passed, by run and account. */
  readonly #warned = new Map<string, string>();
  readonly #costs = new Map<string, Record<string, string>>();

  constructor({ clock, log, tenants }: MemoryLedgerOptions) {
    this.#clock = clock;
    this.#log = log;
    this.#tenants = tenants;
  }

  /** Sets the cap of a batch, which a producer does elsewhere. */
  setBudget(tenant: string, batch: string, { capMicrocents, onExceed }: Cap): void {
    Object.assign(this.#account(tenant, { scope: 'batch', id: batch }), { cap: capMicrocents, onExceed });
  }

  /** Adds money to an account, which a producer does elsewhere. */
  topUp(tenant: string, name: AccountName, amount: number): void {
    this.#account(tenant, name).extra += amount;
  }

  /** An account as people see it. */
  view(tenant: string, name: AccountName): BudgetView {
    const account = this.#account(tenant, name);
    const { scope, id, cap, extra, onExceed, spent, presumed, reserved } = account;
    return {
      scope,
      id,
      window: scope === 'tenant' ? (this.#tenants.of(tenant).budget?.window ?? 'day') : 'total',
      windowStart: account.window,
      ...(cap !== undefined && { capMicrocents: cap + extra }),
      onExceed,
      spentMicrocents: spent,
      presumedMicrocents: presumed,
      reservedMicrocents: reserved,
      waiting: this.#of(tenant).waiting(account),
    };
  }

  /** The cost counters of a day. */
  costs(tenant: string, day: string): CostRow[] {
    return costRowsOf(day, this.#costs.get(`${tenant} ${day}`) ?? {});
  }

  isCapped(purse: Purse): boolean {
    return isCapped(purse, this.#tenants);
  }

  async reserve(request: ReserveRequest): Promise<Reservation> {
    const { purse, id, provider, model, wanted, force } = request;
    const accounts = this.#accountsOf(purse);
    this.#seed(purse, accounts);
    const known = this.#find(purse, id);
    let given = known?.given ?? wanted;
    if (!known) {
      const margin = Math.max(...accounts.map(({ excess }) => excess.get(`${provider}/${model}`) ?? 0));
      const refusal = force ? undefined : refuse(accounts, Math.min(request.least, wanted) + margin);
      for (const account of accounts) this.#of(purse.tenant).leave(account, purse.runId);
      if (refusal) {
        remember(this.#margins, purse.runId, margin);
        return refusal;
      }
      if (!force) given = Math.min(wanted, ...accounts.map((account) => roomOf(account).left - margin));
      const source = costSource({ agent: purse.agentId, provider, model });
      const held = given + margin;
      const reservation = { runId: purse.runId, held, given, presumed: 0, accounts, source, final: false };
      this.#open.set(nameOf(purse, id), reservation);
      for (const account of accounts) account.reserved += held;
    }
    return { kind: 'reserved', amount: given, warnings: this.#warnings(purse, id, accounts) };
  }

  /** Those that are passed, with the first reservation of the run that finds it so. */
  #warnings({ runId }: Purse, id: string, accounts: readonly Account[]): readonly AccountState[] {
    return accounts
      .filter((account, index) => {
        const name = `${runId} ${index}`;
        if (isPassed(account) && !this.#warned.has(name)) remember(this.#warned, name, id);
        return this.#warned.get(name) === id;
      })
      .map(stateOf);
  }

  async settle(settlement: Settlement): Promise<readonly string[]> {
    const { purse, id, provider, model, costMicrocents: cost } = settlement;
    const wasOpen = this.#open.has(nameOf(purse, id));
    const known = this.#find(purse, id);
    if (known?.final) return [];
    const accounts = this.isCapped(purse) ? this.#accountsOf(purse) : [];
    const source = costSource({ agent: purse.agentId, provider, model });
    const none = { runId: purse.runId, held: 0, given: 0, presumed: 0, accounts, source, final: false };
    const reservation = known ?? none;
    const most = Math.max(reservation.held, reservation.presumed);
    const presumed = settlement.presumed ? Math.max(0, most - cost) : 0;
    const guessed = presumed - reservation.presumed;
    for (const [field, by] of costIncrements(purse.agentId, settlement.parts ?? [settlement]))
      this.#count(purse, field, by);
    if (guessed !== 0) this.#count(purse, `presumedMicrocents ${source}`, guessed);
    const booked = this.#book(purse, reservation, cost + guessed, guessed);
    this.#finish(purse, id, { ...reservation, held: 0, presumed: 0, accounts: booked, final: true });
    const reckoned = Math.min(reservation.given, settlement.expectedMicrocents ?? reservation.given);
    if (wasOpen && cost > reckoned) this.#learn(accounts, settlement, cost - reckoned);
    return this.#takeFrom(purse, accounts);
  }

  async release(purse: Purse, id: string): Promise<readonly string[]> {
    const reservation = this.#open.get(nameOf(purse, id));
    if (!reservation) return [];
    const accounts = this.#book(purse, reservation, 0, 0);
    this.#finish(purse, id, { ...reservation, held: 0, accounts, final: true });
    return this.#takeFrom(purse, this.#accountsOf(purse));
  }

  async forfeit(purse: Purse): Promise<readonly string[]> {
    const { runId, tenant } = purse;
    const prefix = nameOf(purse, '');
    for (const [name, reservation] of this.#open) {
      if (!name.startsWith(prefix)) continue;
      const { held, source } = reservation;
      if (held > 0) this.#count(purse, `presumedMicrocents ${source}`, held);
      const accounts = this.#book(purse, reservation, held, held);
      this.#finish(purse, name.slice(prefix.length), { ...reservation, held: 0, presumed: held, accounts });
    }
    const accounts = this.#accountsOf(purse);
    for (const account of accounts) this.#of(tenant).leave(account, runId);
    return this.#takeFrom(purse, accounts);
  }

  async await({ runId, tenant }: Purse, name: AccountName, amount: number): Promise<boolean> {
    const account = this.#account(tenant, name);
    const accounts = this.#of(tenant);
    const need = amount + (this.#margins.get(runId) ?? 0);
    accounts.wait(account, runId, placeInLine(runId, this.#clock.now()), need);
    if (!accounts.whoFits(account, this.#clock.now()).includes(runId)) return false;
    accounts.tell(account, runId, this.#clock.now());
    return true;
  }

  async pump(): Promise<readonly string[]> {
    return [...this.#accounts].flatMap(([tenant, accounts]) =>
      accounts.waitedFor().flatMap((name) => accounts.takeWhoFits(this.#account(tenant, name), this.#clock.now())),
    );
  }

  #of(tenant: string): MemoryAccounts {
    const accounts = this.#accounts.get(tenant) ?? new MemoryAccounts();
    this.#accounts.set(tenant, accounts);
    return accounts;
  }

  #account(tenant: string, name: AccountName): Account {
    return this.#of(tenant).get(waitedFor(name, tenant, this.#tenants, this.#clock.now()));
  }

  #accountsOf(purse: Purse): Account[] {
    return this.#places(purse).map((place) => this.#of(purse.tenant).get(place));
  }

  #places(purse: Purse): PurseAccount[] {
    return accountsOf(purse, this.#tenants, this.#clock.now());
  }

  #seed({ run }: Purse, [own]: readonly Account[]): void {
    if (own && own.spent === 0 && own.reserved === 0) own.spent = run?.spentMicrocents ?? 0;
  }

  #find(purse: Purse, id: string): Held | undefined {
    return this.#open.get(nameOf(purse, id)) ?? this.#finished.get(nameOf(purse, id));
  }

  #learn(accounts: readonly Account[], { provider, model }: Settlement, overMicrocents: number): void {
    const name = `${provider}/${model}`;
    const learning = accounts.filter(({ excess }) => overMicrocents > (excess.get(name) ?? 0));
    for (const { excess } of learning) excess.set(name, overMicrocents);
    if (learning.length > 0) this.#log.warn({ provider, model, overMicrocents }, dearerThanHeld);
  }

  #finish(purse: Purse, id: string, reservation: Held): void {
    this.#open.delete(nameOf(purse, id));
    remember(this.#finished, nameOf(purse, id), reservation, mostFinished);
  }

  /** Where a tenant's window is long over, what is spent counts in the present one. Answers the accounts it is booked in. */
  #book(purse: Purse, { held, accounts }: Held, spent: number, presumed: number): Account[] {
    const tenants = this.#places(purse).find(({ scope }) => scope === 'tenant');
    return accounts.flatMap((account) => {
      account.reserved -= held;
      const isOver =
        tenants && account.scope === 'tenant' && ![tenants.window, tenants.before].includes(account.window);
      if (isOver && spent < 0) return [];
      const present = isOver ? this.#of(purse.tenant).get(tenants) : account;
      present.spent += spent;
      present.presumed += presumed;
      return [present];
    });
  }

  #count({ tenant }: Purse, field: string, by: number): void {
    const name = `${tenant} ${windowOf('day', this.#clock.now())}`;
    const counters = this.#costs.get(name) ?? {};
    counters[field] = String(Number(counters[field] ?? 0) + by);
    remember(this.#costs, name, counters, mostCostDays);
  }

  #takeFrom({ tenant }: Purse, accounts: readonly Account[]): string[] {
    return accounts.flatMap((account) => this.#of(tenant).takeWhoFits(account, this.#clock.now()));
  }
}

/** The first account that is used up, else the first in which only calls under way are in the way. */
function refuse(accounts: readonly Account[], needed: number): Exclude<Reservation, { kind: 'reserved' }> | undefined {
  const used = accounts.find((account) => roomOf(account).total < needed);
  // An account that only warns has room for everything, so it is none of these.
  if (used)
    return { kind: 'exceeded', account: stateOf(used), onExceed: used.onExceed as 'fail' | 'pause_for_approval' };
  const busy = accounts.find((account) => roomOf(account).left < needed);
  return busy && { kind: 'busy', account: stateOf(busy) };
}

function isPassed(account: Account): boolean {
  const { capMicrocents, spentMicrocents, reservedMicrocents } = stateOf(account);
  const passed = account.cap !== undefined && spentMicrocents + reservedMicrocents > capMicrocents;
  return passed && account.onExceed === 'warn';
}

function stateOf({ scope, id, cap = 0, extra, spent, reserved }: Account): AccountState {
  return { scope, id, capMicrocents: cap + extra, spentMicrocents: spent, reservedMicrocents: reserved };
}

function nameOf({ tenant, runId }: Purse, id: string): string {
  return `${tenant} ${runId} ${id}`;
}

/** Sets an entry as the newest, and forgets the oldest when there are too many. */
function remember<V>(map: Map<string, V>, key: string, value: V, most = mostFinished): void {
  map.delete(key);
  map.set(key, value);
  if (map.size <= most) return;
  for (const oldest of map.keys()) {
    map.delete(oldest);
    return;
  }
}
