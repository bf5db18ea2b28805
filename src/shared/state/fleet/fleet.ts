import { z } from 'zod';
import type { AgentView } from '../../contract/agent/agent.ts';
import type { AgentSheet } from '../../contract/agent/agent-detail.ts';
import { jsonOr, jsonText } from '../../base/json.ts';
import type { ProviderReport } from '../../contract/provider-report.ts';
import { named } from '../errors.ts';
import { quarantineQueue, defaultQueue } from '../../contract/queues.ts';
import { RunError } from '../../base/errors.ts';
import { pairsOf } from '../../base/collections.ts';
import type { RedisConnection } from '../connect.ts';
import type { Keys, KeySpace } from '../keys.ts';

/** One live worker process, as it announces itself. */
export interface WorkerInfo {
  readonly name: string;
  readonly queues: readonly string[];
  readonly concurrency: number;
  readonly active: number;
  readonly startedAt: string;
  readonly version: string;
  readonly providers: readonly ProviderReport[];
  /** The runs that it works on, the longest first: at most as many as are shown. */
  readonly runs: readonly WorkingOn[];
}

/** A run on a worker, and since when. */
export interface WorkingOn {
  readonly runId: string;
  readonly since: string;
}

/** Of the runs that a worker works on, so many are announced. */
export const announcedRuns = 50;

/** By then another worker has claimed the runs of a worker that died. */
const watchedTtlMs = 600_000;

/** What the workers of a fleet announce, and what is counted for all of them, in Redis. */
export function redisFleet({ redis, keys }: KeySpace) {
  return {
    /** Adds to a counter that `doctor` shows. */
    async count(counter: 'requeued' | 'abandoned' | 'quarantined' | 'postrun_jobs_failed', by: number): Promise<void> {
      await redis.hincrby(keys.counters, counter, by);
      await redis.hset(keys.counters, `${counter}_at`, Date.now());
    },
    /** Announces this worker; entries that were not renewed for 15 s count as gone. */
    async heartbeat(worker: WorkerInfo): Promise<void> {
      await redis.zadd(keys.workers, Date.now(), worker.name);
      await redis.hset(keys.workerInfo, worker.name, jsonText(worker));
      const queues = worker.queues.filter((queue) => queue !== quarantineQueue);
      if (queues.length > 0) await redis.zadd(keys.queues, ...queues.flatMap((queue) => [Date.now(), queue]));
    },
    /** Marks this process as alive for so many milliseconds, by the clock of the store. */
    async pulse(name: string, forMs: number): Promise<void> {
      await redis.set(keys.pulse(name), '1', 'PX', Math.round(forMs));
    },
    /** Writes which run this worker watches; undefined: none. */
    async watching(name: string, runId: string | undefined): Promise<void> {
      const key = keys.watched(name);
      const written: Promise<unknown> =
        runId === undefined ? redis.del(key) : redis.set(key, runId, 'PX', watchedTtlMs);
      await named(`watch of worker ${name}`, written);
    },
    /** Is this run not to blame for the loss of that worker: it lives, or it died while it watched another run? */
    async isExcused(name: string, runId: string): Promise<boolean> {
      const asked = Promise.all([redis.exists(keys.pulse(name)), redis.get(keys.watched(name))]);
      const [alive, watched] = await named(`look after worker ${name}`, asked);
      return alive > 0 || (watched !== null && watched !== runId);
    },
    async farewell(name: string): Promise<void> {
      await redis.del(keys.pulse(name));
      await redis.zrem(keys.workers, name);
      await redis.hdel(keys.workerInfo, name);
    },
    async liveWorkers(): Promise<readonly WorkerInfo[]> {
      const since = Date.now() - workerTtlMs;
      const gone = await redis.zrangebyscore(keys.workers, '-inf', since - 60_000);
      if (gone.length > 0) {
        await redis.zrem(keys.workers, ...gone);
        await redis.hdel(keys.workerInfo, ...gone);
      }
      const names = await redis.zrangebyscore(keys.workers, since, '+inf');
      if (names.length === 0) return [];
      const infos = await redis.hmget(keys.workerInfo, ...names);
      return infos.filter((info) => info !== null).map((info) => JSON.parse(info) as WorkerInfo);
    },
    /** Publishes the public part of the loaded agents for producers. */
    async announceAgents(agents: readonly AnnouncedAgent[]): Promise<void> {
      const seenAt = new Date().toISOString();
      if (agents.length === 0) return;
      await redis.hset(keys.agentSheets, ...agents.flatMap(({ view, sheet }) => [view.id, sheetText(sheet)]));
      await redis.hset(keys.agents, ...agents.flatMap(({ view }) => [view.id, jsonText({ ...view, seenAt })]));
    },
    /** Forgets agents that no worker has announced for seven days, and answers the queues of which that is true. */
    async unannounced(): Promise<readonly string[]> {
      const before = Date.now() - announcedTtlMs;
      const agents = Object.entries(await redis.hgetall(keys.agents));
      const stale = agents.filter(([, json]) => !(seenAtOf(json) > before)).map(([id]) => id);
      if (stale.length > 0) {
        await redis.hdel(keys.agents, ...stale);
        await redis.hdel(keys.agentSheets, ...stale);
      }
      return await redis.zrangebyscore(keys.queues, '-inf', before);
    },
    async forgetQueue(queue: string): Promise<void> {
      await redis.zrem(keys.queues, queue);
    },
  };
}

const announced = z.object({ seenAt: z.string() });

/** An agent that a worker has loaded: its public part, and the rest of what is data of it. */
export interface AnnouncedAgent {
  readonly view: AgentView;
  readonly sheet: AgentSheet;
}

/** Of a sheet that is larger, only the definition is kept, or nothing. */
const maxSheetBytes = 512 * 1024;

function sheetText(sheet: AgentSheet): string {
  const forms = [sheet, { ...sheet, toolDetails: [] }];
  return forms.map((form) => jsonText(form)).find((text) => Buffer.byteLength(text) <= maxSheetBytes) ?? 'null';
}

/** NaN for an entry without it. */
function seenAtOf(json: string): number {
  return Date.parse(announced.safeParse(jsonOr(json)).data?.seenAt ?? '');
}

/** A worker whose last heartbeat is older than this is gone. */
export const workerTtlMs = 15_000;
/** Queues and agents that no worker has announced for so long no longer exist. Longer than any deploy or outage. */
export const announcedTtlMs = 7 * 86_400_000;

const maxAgeMs = 2_000;
const maxNamed = 50;

/**
 * The queues that exist: those that an operator listed or, without a list, `runs` and every queue that a worker announced in
 * the last days. A queue whose workers are all gone, as in a rolling deploy, still exists. What was read is kept for two seconds.
 */
export class QueueDirectory {
  readonly #keys: Keys;
  readonly #listed: readonly string[] | undefined;
  #announcedAt: ReadonlyMap<string, number> = new Map();
  #readAt = Number.NEGATIVE_INFINITY;

  constructor(keys: Keys, listed: readonly string[] | undefined) {
    this.#keys = keys;
    this.#listed = listed;
  }

  /** Throws `unknown_queue`. Answers what the caller should know: nothing, or that no live worker serves the queue. */
  async check(queue: string, redis: RedisConnection): Promise<readonly string[]> {
    const isFresh = performance.now() - this.#readAt <= maxAgeMs;
    if (!(isFresh && this.#isServed(queue))) await this.#read(redis);
    if (!this.#has(queue)) throw this.#unknown(queue);
    if (this.#isServed(queue)) return [];
    return [`no live worker serves queue ${queue}: the run waits until one does`];
  }

  /** All of them. */
  async names(redis: RedisConnection): Promise<readonly string[]> {
    await this.#read(redis);
    return this.#names();
  }

  #has(queue: string): boolean {
    if (this.#listed) return this.#listed.includes(queue);
    return queue === defaultQueue || this.#announcedAt.has(queue);
  }

  #isServed(queue: string): boolean {
    return (this.#announcedAt.get(queue) ?? 0) >= Date.now() - workerTtlMs;
  }

  #names(): readonly string[] {
    return [...new Set(this.#listed ?? [defaultQueue, ...this.#announcedAt.keys()])].sort();
  }

  #unknown(queue: string): RunError {
    const queues = this.#names().slice(0, maxNamed);
    const remedy = this.#listed ? 'the operator lists them in MILLRACE_QUEUES' : 'a worker announces its WORKER_QUEUES';
    return new RunError('unknown_queue', `there is no queue ${queue}; there are ${queues.join(', ')}: ${remedy}`, {
      details: { path: 'queue', queues },
    });
  }

  async #read(redis: RedisConnection): Promise<void> {
    const flat = await redis.zrange(this.#keys.queues, 0, '-1', 'WITHSCORES');
    this.#announcedAt = new Map(pairsOf(flat).map(([queue, at]) => [queue, Number(at)]));
    this.#readAt = performance.now();
  }
}
