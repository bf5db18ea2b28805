import type { Log } from '../../../shared/base/log.ts';
import type { OnExceed } from '../../../shared/contract/money.ts';
import { dearerThanReserved, type AccountState, type Accounts } from '../../../shared/state/money/accounts.ts';
import type {
  HoldRequest,
  Ledger,
  Reservation,
  ReserveRequest,
  Settlement,
} from '../../../shared/state/money/ledger.ts';
import { randomUUID } from 'node:crypto';
import type { Clock } from '../../../shared/base/clock.ts';
import type { ProviderLimits } from '../../../shared/contract/limits.ts';
import type { Breakers } from '../../../shared/state/limits/breakers.ts';
import type { RateLimiter, GrantRequest } from '../../../shared/state/limits/rate/rate-limiter.ts';

/** Runs with an account; of more, the longest unused without reservations is forgotten, and begins again with its record's cost. */
const mostRuns = 1_000;

/** The reservation of an attempt. `unconfirmed` is what of it counts as spent although the provider confirmed nothing. */
interface Reserved {
  readonly state: 'open' | 'written_off' | 'settled';
  readonly reserved: number;
  readonly given: number;
  readonly unconfirmed: number;
}

/** The money of a run. */
interface Account {
  spent: number;
  /** What is held included. */
  reserved: number;
  /** For closing calls: of this run, and of all that pay from here. */
  hold: number;
  held: number;
  /** By model: the largest amount by which a call cost more than was reserved for it. */
  readonly excess: Map<string, number>;
  readonly reservations: Map<string, Reserved>;
  /** Which reservation of the run was the first to pass the cap of which run. */
  readonly warned: Map<string, string>;
}

interface Limit {
  readonly runId: string;
  readonly capMicrocents: number;
  readonly onExceed: OnExceed;
  readonly account: Account;
}

/**
 * The money of the runs of one process: a counter for each run, against its own cap and the caps of its parents. Batches
 * and tenants have no accounts here, costs are not counted by day, and no run waits in a queue for money.
 */
export class InMemoryLedger implements Ledger {
  readonly #log: Log;
  readonly #byRun = new Map<string, Account>();

  constructor(log: Log) {
    this.#log = log;
  }

  isCapped({ run, payers = [] }: Accounts): boolean {
    return run !== undefined || payers.length > 0;
  }

  async hold({ accounts, provider, model, amount, force }: HoldRequest): Promise<Reservation> {
    const limits = this.#limitsOf(accounts);
    const { account: own } = limits[0] as Limit;
    if (own.spent === 0 && own.reserved === 0) own.spent = accounts.run?.spentMicrocents ?? 0;
    const wanted = amount + marginOf(limits, provider, model);
    const before = own.hold;
    if (before >= wanted) return { kind: 'reserved', amount: before, warnings: [] };
    bookHold(limits, -before);
    const refusal = force ? undefined : refuse(limits, wanted);
    bookHold(limits, refusal ? before : wanted);
    return refusal ?? { kind: 'reserved', amount: wanted, warnings: [] };
  }

  async releaseHold(accounts: Accounts): Promise<readonly string[]> {
    const limits = this.#limitsOf(accounts);
    bookHold(limits, -this.#accountOf(accounts.runId).hold);
    return [];
  }

  async reserve(request: ReserveRequest): Promise<Reservation> {
    const { accounts, id, provider, model, wanted, least, force, closing = false } = request;
    const limits = this.#limitsOf(accounts);
    const { account: own } = limits[0] as Limit;
    if (own.spent === 0 && own.reserved === 0) own.spent = accounts.run?.spentMicrocents ?? 0;
    let amount = own.reservations.get(id)?.given;
    if (amount === undefined) {
      const margin = marginOf(limits, provider, model);
      const held = closing ? own.hold : 0;
      bookHold(limits, -held);
      const refusal = force ? undefined : refuse(limits, Math.min(least, wanted) + margin);
      if (refusal) {
        bookHold(limits, held);
        return refusal;
      }
      amount = force
        ? wanted
        : Math.min(wanted, ...limits.map((limit) => roomIn(limit) - limit.account.reserved - margin));
      const reserved = amount + margin;
      own.reservations.set(id, { state: 'open', reserved, given: amount, unconfirmed: 0 });
      book(limits, reserved, 0);
    }
    return { kind: 'reserved', amount, warnings: warningsOf(limits, own, id) };
  }

  async settle(settlement: Settlement): Promise<readonly string[]> {
    const { accounts, id, provider, model, costMicrocents: cost, expectedMicrocents } = settlement;
    if (!this.isCapped(accounts)) return [];
    const limits = this.#limitsOf(accounts);
    const { reservations } = this.#accountOf(accounts.runId);
    const { state, reserved, given, unconfirmed } = reservations.get(id) ?? neverReserved;
    if (state === 'settled') return [];
    const guess = settlement.unconfirmed ? Math.max(0, Math.max(reserved, unconfirmed) - cost) : 0;
    reservations.set(id, { state: 'settled', reserved: 0, given, unconfirmed: 0 });
    book(limits, -reserved, cost + guess - unconfirmed);
    const overMicrocents = cost - Math.min(given, expectedMicrocents ?? given);
    const name = `${provider}/${model}`;
    const learning = limits.filter(({ account }) => overMicrocents > (account.excess.get(name) ?? 0));
    if (state !== 'open' || learning.length === 0) return [];
    for (const { account } of learning) account.excess.set(name, overMicrocents);
    this.#log.warn({ provider, model, overMicrocents }, dearerThanReserved);
    return [];
  }

  async release(accounts: Accounts, id: string): Promise<readonly string[]> {
    const { reservations } = this.#accountOf(accounts.runId);
    const known = reservations.get(id);
    if (known?.state !== 'open') return [];
    reservations.set(id, { ...known, state: 'settled', reserved: 0 });
    book(this.#limitsOf(accounts), -known.reserved, 0);
    return [];
  }

  async writeOff(accounts: Accounts): Promise<readonly string[]> {
    const { reservations } = this.#accountOf(accounts.runId);
    for (const [id, { state, reserved, given }] of reservations) {
      if (state !== 'open') continue;
      reservations.set(id, { state: 'written_off', reserved: 0, given, unconfirmed: reserved });
      book(this.#limitsOf(accounts), -reserved, reserved);
    }
    return [];
  }

  /** A run of one process waits for money where it is; what is used up never comes back. */
  async await(): Promise<boolean> {
    return false;
  }

  async dispatch(): Promise<readonly string[]> {
    return [];
  }

  #accountOf(runId: string): Account {
    const known = this.#byRun.get(runId);
    const empty = {
      spent: 0,
      reserved: 0,
      hold: 0,
      held: 0,
      excess: new Map(),
      reservations: new Map(),
      warned: new Map(),
    };
    const account: Account = known ?? empty;
    this.#byRun.delete(runId);
    this.#byRun.set(runId, account);
    const unused = !known && this.#byRun.size > mostRuns && [...this.#byRun].find(([, { reserved }]) => reserved === 0);
    if (unused) this.#byRun.delete(unused[0]);
    return account;
  }

  #limitsOf({ runId, run, payers = [] }: Accounts): readonly Limit[] {
    const own = { runId, capMicrocents: run?.capMicrocents ?? Infinity, onExceed: run?.onExceed ?? 'fail' };
    return [own, ...payers].map((limit) => ({ ...limit, account: this.#accountOf(limit.runId) }));
  }
}

/** The first of the limits is that of the run whose hold changes. */
function bookHold(limits: readonly Limit[], amount: number): void {
  const own = limits[0]?.account;
  if (own) own.hold += amount;
  for (const { account } of limits) {
    account.reserved += amount;
    account.held += amount;
  }
}

/** What calls of this model have cost beyond their reservations. */
function marginOf(limits: readonly Limit[], provider: string, model: string): number {
  return Math.max(...limits.map(({ account }) => account.excess.get(`${provider}/${model}`) ?? 0));
}

function book(limits: readonly Limit[], reserved: number, spent: number): void {
  for (const { account } of limits) {
    account.reserved += reserved;
    account.spent += spent;
  }
}

/** A call without a reservation. */
const neverReserved = { state: 'none', reserved: 0, given: 0, unconfirmed: 0 } as const;

/** What calls may cost until the cap is reached. A cap that only warns refuses nothing. */
function roomIn({ capMicrocents, onExceed, account }: Limit): number {
  return onExceed === 'warn' ? Infinity : capMicrocents - account.spent;
}

/** The first run whose cap is used up, else the first in which only calls under way are in the way. */
function refuse(limits: readonly Limit[], needed: number): Exclude<Reservation, { kind: 'reserved' }> | undefined {
  // What is held is for no call under way: nothing of it turns out cheaper.
  const used = limits.find((limit) => roomIn(limit) - limit.account.held < needed);
  if (used)
    return { kind: 'exceeded', account: stateOf(used), onExceed: used.onExceed as 'fail' | 'pause_for_approval' };
  const busy = limits.find((limit) => roomIn(limit) - limit.account.reserved < needed);
  return busy && { kind: 'busy', account: stateOf(busy) };
}

/** Caps that only warn and are passed, with the first reservation of the run that finds it so. */
function warningsOf(limits: readonly Limit[], { warned }: Account, id: string): readonly AccountState[] {
  const passed = limits.filter(({ runId, capMicrocents, onExceed, account }) => {
    const isPassed = onExceed === 'warn' && account.spent + account.reserved > capMicrocents;
    if (isPassed && !warned.has(runId)) warned.set(runId, id);
    return warned.get(runId) === id;
  });
  return passed.map(stateOf);
}

function stateOf({ runId, capMicrocents, account: { spent, reserved } }: Limit): AccountState {
  return { scope: 'run', id: runId, capMicrocents, spentMicrocents: spent, reservedMicrocents: reserved };
}

const windowMs = 60_000;
/** After a refusal without a time: at first, and within which bounds. */
const [usualCooldownMs, shortestCooldownMs, longestCooldownMs] = [1_000, 250, 60_000];
/** How often a call that waits for one in flight looks again. */
const lookMs = 50;
/** Answers are rarely as long as they may be. What a call really used replaces this. */
const usualAnswerTokens = 1_024;

/** What was called at one provider for one model. */
interface Counter {
  calls: { readonly id: string; readonly atMs: number; tokens: number }[];
  inFlight: number;
  coolUntilMs: number;
}

/**
 * Rate limits of one process: counts the calls in flight and those of the last window, and waits as long as a provider asked
 * for when it refused one. Nothing is learnt, shared between tenants or parked: a call waits where it is.
 */
export function inMemoryRateLimiter(clock: Clock): RateLimiter {
  const counters = new Map<string, Counter>();

  function counterOf(limiter: string): Counter {
    const counter = counters.get(limiter) ?? { calls: [], inFlight: 0, coolUntilMs: 0 };
    counters.set(limiter, counter);
    return counter;
  }

  return {
    async acquire(request, maxInlineWaitMs, signal) {
      const { limiter, tenant } = request;
      const counter = counterOf(limiter);
      const askedMs = clock.monotonic();
      for (;;) {
        signal.throwIfAborted();
        const nowMs = clock.monotonic();
        const waitMs = blockedMs(counter, request, nowMs);
        if (waitMs === 0) {
          const call = { id: randomUUID(), atMs: nowMs, tokens: expectedTokens(request) };
          if (hasWindow(request.limits)) counter.calls.push(call);
          counter.inFlight += 1;
          const grant = { id: call.id, limiter, tenant, tokens: call.tokens, waitedMs: nowMs - askedMs };
          return { kind: 'granted', grant };
        }
        if (nowMs - askedMs + waitMs > maxInlineWaitMs) return { kind: 'parked', expectedMs: Math.ceil(waitMs) };
        // Calls that end may shorten any other wait than this one.
        const coolMs = counter.coolUntilMs - nowMs;
        await clock.sleep(coolMs > 0 ? coolMs : Math.min(waitMs, lookMs), signal);
      }
    },
    async settle({ id, limiter }, { usedTokens, unused, limited }) {
      const counter = counterOf(limiter);
      counter.inFlight -= 1;
      if (unused) counter.calls = counter.calls.filter((call) => call.id !== id);
      const call = counter.calls.find((one) => one.id === id);
      if (call) call.tokens = usedTokens ?? call.tokens;
      if (!limited) return;
      const waitMs = Math.min(longestCooldownMs, Math.max(shortestCooldownMs, limited.retryAfterMs ?? usualCooldownMs));
      counter.coolUntilMs = Math.max(counter.coolUntilMs, clock.monotonic() + waitMs);
    },
    async park() {},
    async leave() {},
    dispatch: async () => [],
    async [Symbol.asyncDispose]() {},
  };
}

/** Milliseconds until another look is worth it; 0: the call may be made. */
function blockedMs(counter: Counter, { limits, ...request }: GrantRequest, nowMs: number): number {
  const { requestsPerMinute = Infinity, tokensPerMinute = Infinity, maxInFlight = Infinity } = limits;
  const lengthMs = limits.windowMs ?? windowMs;
  counter.calls = counter.calls.filter(({ atMs }) => atMs > nowMs - lengthMs);
  const [oldest] = counter.calls;
  const share = lengthMs / windowMs;
  const tokens = counter.calls.reduce((sum, call) => sum + call.tokens, expectedTokens({ limits, ...request }));
  const isFull = counter.calls.length + 1 > Math.max(1, requestsPerMinute * share) || tokens > tokensPerMinute * share;
  // A call that is larger than a whole window is made when there is nothing else.
  const windowWaitMs = oldest && isFull ? oldest.atMs + lengthMs - nowMs : 0;
  const flightWaitMs = counter.inFlight >= maxInFlight ? lookMs : 0;
  return Math.max(0, counter.coolUntilMs - nowMs, windowWaitMs, flightWaitMs);
}

function hasWindow({ requestsPerMinute, tokensPerMinute }: ProviderLimits): boolean {
  return requestsPerMinute !== undefined || tokensPerMinute !== undefined;
}

function expectedTokens({ promptTokens, maxOutputTokens }: GrantRequest): number {
  return promptTokens + Math.min(maxOutputTokens, usualAnswerTokens);
}

/** One process has no fleet to warn of a model that fails: its fallback models are tried call by call. */
export const noBreakers: Breakers = {
  admit: async () => ({ kind: 'closed' }),
  async report() {},
  states: () => new Map(),
  async [Symbol.asyncDispose]() {},
};
