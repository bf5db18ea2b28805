import { RunError } from '../../../shared/base/errors.ts';
import { type RedisConnection, mastersOf } from '../../../shared/state/connect.ts';
import type { Keys } from '../../../shared/state/keys.ts';
import { listThread } from '../../../shared/state/thread/list.ts';
import type { ThreadKeySpace } from '../../../shared/state/thread/key-space.ts';
import { sharedFor } from '../shared-for.ts';
import type { ThreadRef } from '../../../shared/contract/thread/thread.ts';

const retryAfterS = 5;
const memoryAgeMs = 1_000;
const countAgeMs = 1_000;
/** Members of a tenant's set that are looked at when it seems full: some may be of runs that ended with their process. */
const maxLookedAt = 1_000;

/** What it needs of a client. */
interface Admitting {
  readonly keys: Keys;
  readonly settings: {
    readonly maxOpenRuns: number;
    readonly maxOpenRunsPerTenant: number;
    readonly memoryMarkPercent: number;
  };
  readonly queues: { readonly quotas: Quotas };
}

/**
 * Decides whether there is room for another run: in Redis, in the fleet, for the tenant. Only runs of callers are checked;
 * children are not, since a run that has begun must be able to end.
 */
export class RunAdmission {
  readonly #usedPercent = sharedFor(memoryAgeMs, usedPercentOf);

  /** Throws `queue_full`: 503 where every tenant is refused, 429 where this tenant is. */
  async check(tenant: string, { keys, settings, queues }: Admitting, redis: RedisConnection): Promise<void> {
    const { maxOpenRuns, maxOpenRunsPerTenant, memoryMarkPercent } = settings;
    const percent = await this.#usedPercent(redis);
    if (percent >= memoryMarkPercent)
      throw full(
        503,
        'memory',
        `Redis uses ${Math.floor(percent)} % of its memory, and runs are accepted below ${memoryMarkPercent} %`,
      );
    if (!(await queues.quotas.take('open', maxOpenRuns, () => redis.zcard(keys.open))))
      throw full(503, 'open_runs', `there are ${maxOpenRuns} open runs, which is the most`);
    const ofTenant = () => openRunsOf(tenant, maxOpenRunsPerTenant, keys, redis);
    if (!(await queues.quotas.take(`open ${tenant}`, maxOpenRunsPerTenant, ofTenant)))
      throw full(429, 'tenant_open_runs', `tenant ${tenant} has ${maxOpenRunsPerTenant} open runs, which is the most`);
  }
}

/** Adds a thread to the list of its tenant before it is made. Throws `queue_full` (429) when the list is full. */
export async function admitThread(space: ThreadKeySpace, thread: ThreadRef, max: number): Promise<void> {
  if (await listThread(space, thread, max)) return;
  const message = `tenant ${thread.tenant} has ${max} threads, which is the most: delete some to begin others`;
  throw full(429, 'tenant_threads', message);
}

/**
 * Of the fullest node: a run lands where its id says. 0 where Redis has no limit. A node that does not answer counts as empty: it
 * refuses by itself what it cannot take, and must not keep runs from the others.
 */
async function usedPercentOf(redis: RedisConnection): Promise<number> {
  const nodes = mastersOf(redis);
  const shares = nodes.map(async (node) => {
    const info = await node.info('memory').catch(() => '');
    const field = (name: string) => Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(info)?.[1] ?? 0);
    const limit = field('maxmemory');
    return limit === 0 ? 0 : (field('used_memory') / limit) * 100;
  });
  return Math.max(0, ...(await Promise.all(shares)));
}

async function openRunsOf(tenant: string, max: number, keys: Keys, redis: RedisConnection): Promise<number> {
  const key = keys.openOf(tenant);
  const count = await redis.scard(key);
  if (count < max) return count;
  const members = await redis.srandmember(key, maxLookedAt);
  const scores = members.length > 0 ? await redis.zmscore(keys.open, ...members) : [];
  const ended = members.filter((_, i) => scores[i] === null);
  return ended.length > 0 ? count - (await redis.srem(key, ...ended)) : count;
}

function full(http: 429 | 503, limit: string, message: string): RunError {
  return new RunError('queue_full', message, { http, details: { limit, retryAfterS } });
}

interface Count {
  readonly readAt: number;
  readonly value: Promise<number>;
  added: number;
}

/**
 * Compares what is in Redis with limits. A number is read once a second and counted along in between, so that an
 * acceptance costs no command of its own; over several producers a limit is therefore approximate.
 */
export class Quotas {
  readonly #counts = new Map<string, Count>();

  /** Counts one more of `name`, or answers false when there are `max`. */
  async take(name: string, max: number, read: () => Promise<number>): Promise<boolean> {
    const count = this.#countOf(name, read);
    if ((await count.value) + count.added >= max) return false;
    count.added += 1;
    return true;
  }

  #countOf(name: string, read: () => Promise<number>): Count {
    const now = performance.now();
    const known = this.#counts.get(name);
    if (known && now - known.readAt <= countAgeMs) return known;
    const value = read();
    value.catch(() => this.#counts.delete(name));
    const count = { readAt: now, value, added: 0 };
    this.#counts.set(name, count);
    return count;
  }
}
