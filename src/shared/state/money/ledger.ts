import type { Clock } from '../../base/clock.ts';
import type { Log } from '../../base/log.ts';
import { windowOf, type OnExceed, budgetScope } from '../../contract/money.ts';
import type { Tenants } from '../../contract/tenants.ts';
import { loadScript, runScript } from '../script.ts';
import type { KeySpace } from '../keys.ts';
import { named, redisError } from '../errors.ts';
import {
  accountsOf,
  dearerThanReserved,
  isCapped,
  queueFront,
  queuePosition,
  accountsFront,
  waitedFor,
  waitingAccountTtlS,
  type AccountState,
  type Accounts,
  type AccountToCharge,
} from './accounts.ts';
import { costIncrements, costSource, costCounter, type PaidAttempt } from './costs.ts';

/** One attempt that wants money before it is sent. Amounts are microcents. */
export interface ReserveRequest {
  readonly accounts: Accounts;
  /** Unique per attempt and owner, without white space. A repeat answers like the first. */
  readonly id: string;
  readonly provider: string;
  readonly model: string;
  /** The most that the call can cost, and the least that is still worth a call: the ledger gives what is left between. */
  readonly wanted: number;
  readonly least: number;
  /** A person allowed this step to pass the caps: everything is counted, nothing refused. */
  readonly force: boolean;
  /** It is the closing call: what the run holds is for it, and is not held any more. */
  readonly closing?: boolean | undefined;
}

/** Money that a run keeps for its closing call. */
export interface HoldRequest extends Pick<ReserveRequest, 'accounts' | 'provider' | 'model' | 'force'> {
  /** In microcents. What calls of this model cost beyond their reservations is held on top. */
  readonly amount: number;
}

/**
 * - reserved: the call may cost `amount`, never more than was wanted; it is reserved in every account until it is settled,
 *   with what calls of this model cost beyond their reservations before. `warnings` lists accounts whose cap this passes,
 *   because their budget only warns
 * - busy: it would fit if calls that are under way turn out cheaper than the most they can cost. Try again, or wait
 * - exceeded: what is spent leaves no room, whatever the others cost
 */
export type Reservation =
  | { readonly kind: 'reserved'; readonly amount: number; readonly warnings: readonly AccountState[] }
  | { readonly kind: 'busy'; readonly account: AccountState }
  | { readonly kind: 'exceeded'; readonly account: AccountState; readonly onExceed: 'fail' | 'pause_for_approval' };

/** What became of a reserved, or never reserved, attempt. */
export interface Settlement extends PaidAttempt {
  readonly accounts: Accounts;
  readonly id: string;
  /** The estimate of its prompt with the real length of the answer: what it cost more shows the error of the estimate. */
  readonly expectedMicrocents?: number | undefined;
  /** The call broke off before it reported its usage and may have been billed: what was reserved counts as spent. */
  readonly unconfirmed: boolean;
  /** What it is the sum of, where that is not one attempt of `model`. Counted in their own rows. */
  readonly parts?: readonly PaidAttempt[] | undefined;
}

/**
 * The money of runs, batches and tenants, shared by all workers. One call reaches all accounts of a run, all or nothing.
 * Throws `queue_unavailable` when the store cannot be reached.
 */
export interface Ledger {
  /** Does any of these accounts have a cap? Without one nothing has to be reserved. Answers without a round trip. */
  isCapped(accounts: Accounts): boolean;
  reserve(request: ReserveRequest): Promise<Reservation>;
  /** Replaces the reservation by the cost, and counts it for the day. Once per id. Answers waiting runs that fit now. */
  settle(settlement: Settlement): Promise<readonly string[]>;
  /**
   * Holds money in all accounts until `releaseHold`, or until the closing call reserves it: no other call gets it, and no write-off
   * spends it. A run holds once; another amount replaces the first where it is larger. A refusal leaves what was held.
   */
  hold(request: HoldRequest): Promise<Reservation>;
  /** The run has ended. Answers waiting runs that fit now. A repeat changes nothing. */
  releaseHold(accounts: Accounts): Promise<readonly string[]>;
  /** Releases a reservation whose call was never sent. */
  release(accounts: Accounts, id: string): Promise<readonly string[]>;
  /** Counts open reservations of a run as spent: after a crash their calls may have been billed. */
  writeOff(accounts: Accounts): Promise<readonly string[]>;
  /**
   * Adds a run that was suspended for money to the wait queue of the account. `amount` is the least of the request that was
   * refused. True when it fits by now: the caller has to wake the run, it does not wait. A repeat changes nothing, so it
   * repairs a wake-up that got lost. A run leaves its queues when it asks for money again and when it is written off.
   */
  await(accounts: Accounts, account: AccountId, amount: number): Promise<boolean>;
  /** Takes the waiting runs whose money is there by now: after a top-up, or when a wake-up got lost. */
  dispatch(): Promise<readonly string[]>;
}

type AccountId = Pick<AccountState, 'scope' | 'id'>;

const scripts = {
  reserve: loadScript(import.meta.url, './reserve.lua'),
  hold: loadScript(import.meta.url, './hold.lua'),
  settle: loadScript(import.meta.url, './settle.lua'),
  release: loadScript(import.meta.url, './release.lua'),
  writeOff: loadScript(import.meta.url, './write-off.lua'),
  await: loadScript(import.meta.url, './await.lua'),
  dispatch: loadScript(import.meta.url, './dispatch.lua'),
};

const daySeconds = 86_400;

export interface RedisLedgerOptions extends KeySpace {
  /** Decides which hour, day or month a tenant's money belongs to. */
  readonly clock: Clock;
  readonly log: Log;
  readonly tenants: Tenants;
  readonly costsRetentionDays: number;
}

/**
 * The ledger in Redis. Every call for a run is one script over all its accounts.
 *
 * Where a call cost more than estimated, its accounts keep the largest such excess of that model and reserve it on top of
 * every later reservation: a provider that counts differently can pass a cap by the error of the calls that were under way
 * when it was found out, not again and again. What is learnt never shrinks; it ends with the account.
 */
export function redisLedger(options: RedisLedgerOptions): Ledger {
  const { redis, keys, clock, log, tenants } = options;
  const keepCostsS = (options.costsRetentionDays + 1) * daySeconds;
  const countCosts = costCounter({ redis, keys, clock, keepCostsS });

  const onAccounts = (name: AccountsScript, call: AccountsCall) => runOnAccounts(options, name, call);
  const costsToday = ({ tenant }: Accounts) => keys.costs(tenant, windowOf('day', clock.now()));

  return {
    isCapped: (accounts) => isCapped(accounts, tenants),

    async reserve(request) {
      const { accounts, id, wanted, least, force } = request;
      const charged = accountsOf(accounts, tenants, clock.now());
      const spentBefore = accounts.run?.spentMicrocents ?? 0;
      const closing = request.closing ? 1 : 0;
      const about = [force ? 1 : 0, sourceOf(request), excessField(request), accounts.runId, spentBefore, closing];
      const reply = await onAccounts('reserve', { accounts, args: [id, wanted, least, ...about] });
      return readReservation(reply as Reply, charged);
    },

    async hold(request) {
      const { accounts, amount, force } = request;
      const charged = accountsOf(accounts, tenants, clock.now());
      const spentBefore = accounts.run?.spentMicrocents ?? 0;
      const args = [amount, force ? 1 : 0, excessField(request), accounts.runId, spentBefore];
      const reply = (await onAccounts('hold', { accounts, args })) as Reply;
      return reply[0] === 1 ? { kind: 'reserved', amount: reply[1], warnings: [] } : readReservation(reply, charged);
    },

    async releaseHold(accounts) {
      const reply = await onAccounts('hold', { accounts, args: [0, 0, '', accounts.runId, 0] });
      return (reply as readonly [1, 0, readonly string[]])[2];
    },

    async settle(settlement) {
      const { accounts, id, provider, model, costMicrocents, expectedMicrocents = '', unconfirmed } = settlement;
      const { tenant, agentId } = accounts;
      const attempts = settlement.parts ?? [settlement];
      if (!isCapped(accounts, tenants)) {
        await countCosts({ id, tenant, agentId, attempts });
        return [];
      }
      const about = [
        unconfirmed ? 1 : 0,
        sourceOf(settlement),
        excessField(settlement),
        keepCostsS,
        expectedMicrocents,
      ];
      const args = [id, costMicrocents, ...about, ...costIncrements(agentId, attempts).flat()];
      const reply = await onAccounts('settle', { accounts, more: [costsToday(accounts)], args });
      const [overMicrocents, runIds] = reply as readonly [number, readonly string[]];
      if (overMicrocents > 0) log.warn({ provider, model, overMicrocents }, dearerThanReserved);
      return runIds;
    },

    async release(accounts, id) {
      return (await onAccounts('release', { accounts, args: [id] })) as readonly string[];
    },

    async writeOff(accounts) {
      if (!isCapped(accounts, tenants)) return [];
      const call = { accounts, more: [costsToday(accounts)], args: [accounts.runId, keepCostsS] };
      return (await onAccounts('writeOff', call)) as readonly string[];
    },

    await: (accounts, account, amount) => joinQueue(options, accounts, account, amount),
    dispatch: () => dispatchQueues(options),
  };
}

type AccountsScript = 'hold' | 'reserve' | 'settle' | 'release' | 'writeOff';

interface AccountsCall {
  readonly accounts: Accounts;
  readonly more?: readonly string[];
  readonly args: readonly (string | number)[];
}

async function runOnAccounts(
  { redis, keys, clock, tenants }: RedisLedgerOptions,
  name: AccountsScript,
  { accounts, more = [], args }: AccountsCall,
): Promise<unknown> {
  const front = accountsFront(keys, accounts.tenant, accountsOf(accounts, tenants, clock.now()));
  const doing = `${name} of run ${accounts.runId}`;
  return await runScript(redis, scripts[name], [...front.keys, ...more], [...front.args, ...args], { doing });
}

function sourceOf({ accounts, provider, model }: ReserveRequest | Settlement): string {
  return costSource({ agent: accounts.agentId, provider, model });
}

function excessField({ provider, model }: ReserveRequest | HoldRequest | Settlement): string {
  return `x:${provider}/${model}`;
}

type Reply =
  | readonly [kind: 1, amount: number, ...warnings: number[]]
  | readonly [
      kind: 2 | 3,
      account: number,
      cap: number,
      spent: number,
      reserved: number,
      mode: Exclude<OnExceed, 'warn'>,
    ];

function readReservation(reply: Reply, charged: readonly AccountToCharge[]): Reservation {
  const stateOf = ([
    account = 0,
    capMicrocents = 0,
    spentMicrocents = 0,
    reservedMicrocents = 0,
  ]: readonly number[]) => {
    const { scope, id } = charged[account - 1] as AccountToCharge;
    return { scope, id, capMicrocents, spentMicrocents, reservedMicrocents };
  };
  if (reply[0] === 1) {
    const [, amount, ...passed] = reply;
    const warnings: AccountState[] = [];
    for (let at = 0; at < passed.length; at += 4) warnings.push(stateOf(passed.slice(at, at + 4)));
    return { kind: 'reserved', amount, warnings };
  }
  const [kind, account, cap, spent, reserved, onExceed] = reply;
  const state = stateOf([account, cap, spent, reserved]);
  return kind === 2 ? { kind: 'busy', account: state } : { kind: 'exceeded', account: state, onExceed };
}

/** Queues that one call looks at, and tenants that they belong to. Where there are more, chance decides which. */
const mostQueues = 1_000;
const mostTenants = 50;

/** See `Ledger.await`. */
async function joinQueue(
  { redis, keys, clock, tenants }: RedisLedgerOptions,
  { runId, tenant }: Accounts,
  account: AccountId,
  amount: number,
): Promise<boolean> {
  const now = clock.now();
  const front = queueFront(keys, tenant, waitedFor(account, tenant, tenants, now));
  const own = [...front.keys, keys.accountsWaiting(tenant), keys.account(tenant, 'run', runId, 'total')];
  const name = `${account.scope}:${account.id}`;
  const args = [...front.args, runId, amount, queuePosition(runId, now), name, waitingAccountTtlS];
  const doing = `wait of run ${runId} for money`;
  const reply = await runScript(redis, scripts.await, own, args, { doing });
  // In a Cluster this set is elsewhere. Last, because a process that finds no queue takes the tenant out of it.
  if (reply === 0) await named(doing, redis.sadd(keys.tenantsWaiting, tenant));
  return reply === 1;
}

/** See `Ledger.dispatch`. Throws only when no run was taken: what was taken before the connection broke is in no queue any more. */
async function dispatchQueues(options: RedisLedgerOptions): Promise<readonly string[]> {
  const { redis, keys } = options;
  const taken: string[] = [];
  try {
    const tenants = await redis.srandmember(keys.tenantsWaiting, mostTenants);
    const each = Math.ceil(mostQueues / Math.max(1, tenants.length));
    await allOf(tenants.map((tenant) => dispatchTenant(options, tenant, each, taken)));
  } catch (error) {
    if (taken.length === 0) throw redisError(error, 'dispatch of runs that wait for money');
  }
  return taken;
}

async function dispatchTenant(options: RedisLedgerOptions, tenant: string, most: number, taken: string[]) {
  const { redis, keys, clock, tenants } = options;
  const waiting = keys.accountsWaiting(tenant);
  const names = await redis.srandmember(waiting, most);
  if (names.length === 0) {
    await redis.srem(keys.tenantsWaiting, tenant);
    // A run may have joined a queue meanwhile: then the tenant is added again.
    if ((await redis.exists(waiting)) === 1) await redis.sadd(keys.tenantsWaiting, tenant);
  }
  const dispatchAccount = async (name: string) => {
    const colon = name.indexOf(':');
    const account = { scope: budgetScope.parse(name.slice(0, colon)), id: name.slice(colon + 1) };
    const front = queueFront(keys, tenant, waitedFor(account, tenant, tenants, clock.now()));
    const doing = `dispatch of account ${name}`;
    const args = [...front.args, name];
    const runIds = await runScript(redis, scripts.dispatch, [...front.keys, waiting], args, { doing });
    taken.push(...(runIds as readonly string[]));
  };
  await allOf(names.map(dispatchAccount));
}

/** Waits for all, then throws the first failure. */
async function allOf(works: readonly Promise<void>[]): Promise<void> {
  const failed = (await Promise.allSettled(works)).find(({ status }) => status === 'rejected');
  if (failed?.status === 'rejected') throw failed.reason;
}
