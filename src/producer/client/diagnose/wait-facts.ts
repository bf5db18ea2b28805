import { z } from 'zod';
import { isAboutCall } from '../../../shared/contract/decisions.ts';
import { pendingItem } from '../../../shared/contract/event.ts';
import { lockedThreads, type LockedThread } from '../../../shared/state/thread/lock.ts';
import type { Connected } from '../client-core.ts';

/** A model that failed lately, over all workers. */
export interface BreakerFacts {
  /** `provider/model`. */
  readonly target: string;
  readonly failures: number;
  /** Milliseconds until it may be probed: 0 from then on, undefined while it is closed. */
  readonly openForMs: number | undefined;
}

/** Runs that wait for the limits of a provider. */
export interface LimiterFacts {
  readonly model: string;
  readonly waiting: number;
}

/** Runs that wait for money. */
export interface MoneyFacts {
  readonly tenant: string;
  /** `scope:id`, as `millrace budget` takes it. */
  readonly account: string;
  readonly waiting: number;
}

/** Runs that wait for people to decide about calls. */
export interface PeopleFacts {
  readonly tenant: string;
  readonly waiting: number;
  /** Milliseconds since the first of them was asked. */
  readonly oldestMs: number;
}

/** Runs that wait for their turn in a thread. */
export interface ThreadFacts extends Pick<LockedThread, 'tenant' | 'threadId' | 'lockOwner' | 'suspended'> {
  readonly waiting: number;
}

/** What runs wait for that is not a worker. At most the first hundred of each. */
export interface WaitFacts {
  readonly breakers: readonly BreakerFacts[];
  readonly limiters: readonly LimiterFacts[];
  readonly money: readonly MoneyFacts[];
  /** Of each tenant, the thousand that have waited longest are looked at. */
  readonly people: readonly PeopleFacts[];
  readonly threads: readonly ThreadFacts[];
}

const maxShown = 100;
const maxAsking = 1_000;

export async function waitFacts(at: Connected): Promise<WaitFacts> {
  const { redis, core } = at;
  const { keys } = core;
  const [breakers, limiters, tenants, asking] = await Promise.all([
    breakersOf(at),
    redis.smembers(keys.limiters),
    redis.smembers(keys.tenantsWaiting),
    redis.smembers(keys.tenantsAsking),
  ]);
  const queues = await Promise.all(
    limiters.slice(0, maxShown).map(async (limiter) => ({
      model: limiter.slice(limiter.indexOf(':') + 1),
      waiting: await redis.zcard(keys.limiter(limiter, 'line')),
    })),
  );
  const threads = await threadsOf(at);
  const people = await Promise.all(asking.slice(0, maxShown).map((tenant) => peopleOf(tenant, at)));
  const money = await Promise.all(tenants.slice(0, maxShown).map((tenant) => accountsOf(tenant, at)));
  return {
    breakers,
    limiters: queues.filter(({ waiting }) => waiting > 0),
    money: money.flat().slice(0, maxShown),
    people: people.filter(({ waiting }) => waiting > 0),
    threads,
  };
}

/** At most the first hundred of the models and tools that failed lately. */
export async function breakersOf({ redis, core: { keys } }: Connected): Promise<readonly BreakerFacts[]> {
  const targets = await redis.smembers(keys.breakers);
  const breakers = await Promise.all(
    targets.slice(0, maxShown).map(async (target) => {
      const [failures, openUntil] = await redis.hmget(keys.breaker(target), 'failures', 'openUntil');
      const openForMs = openUntil ? Math.max(0, Number(openUntil) - Date.now()) : undefined;
      return { target, failures: Number(failures ?? 0), openForMs };
    }),
  );
  return breakers.filter(({ failures }) => failures > 0);
}

async function threadsOf({ core, redis }: Connected): Promise<readonly ThreadFacts[]> {
  const threads = await lockedThreads(core.threadKeySpace(redis), maxShown);
  const facts = await Promise.all(
    threads.map(async ({ tenant, threadId, lockOwner, suspended }) => ({
      tenant,
      threadId,
      lockOwner,
      suspended,
      waiting: await redis.zcard(core.keys.thread(tenant, threadId, 'waiters')),
    })),
  );
  return facts.filter(({ waiting }) => waiting > 0).sort((a, b) => b.waiting - a.waiting);
}

async function accountsOf(tenant: string, { core: { keys }, redis }: Connected): Promise<readonly MoneyFacts[]> {
  const names = await redis.smembers(keys.accountsWaiting(tenant));
  const accounts = await Promise.all(
    names.slice(0, maxShown).map(async (account) => {
      const colon = account.indexOf(':');
      const waiters = keys.accountWaiting(tenant, account.slice(0, colon), account.slice(colon + 1));
      return { tenant, account, waiting: await redis.zcard(waiters) };
    }),
  );
  return accounts.filter(({ waiting }) => waiting > 0);
}

/** Entries of runs that do not wait (any more) do not count: `listApprovals` removes them. */
async function peopleOf(tenant: string, { core: { keys }, redis }: Connected): Promise<PeopleFacts> {
  const runIds = await redis.zrange(keys.asking(tenant), 0, `${maxAsking - 1}`);
  const pending = await Promise.all(runIds.map((runId) => redis.hget(keys.run(runId), 'pending')));
  const asked = pending.flatMap((json) => {
    const { data: items = [] } = z.array(pendingItem).safeParse(JSON.parse(json ?? '[]'));
    const first = Math.min(...items.filter(isAboutCall).map(({ requestedAt }) => Date.parse(requestedAt)));
    return Number.isFinite(first) ? [first] : [];
  });
  // Of nothing, the least is infinite.
  return { tenant, waiting: asked.length, oldestMs: Math.max(0, Date.now() - Math.min(...asked)) };
}
