import type { RunError } from '../../base/errors.ts';
import type { AgentView } from '../../contract/agent/agent.ts';
import { type PendingItem, pendingItem } from '../../contract/event.ts';
import { type JobKind, type RunStatus, jobKind, runStatus } from '../../contract/run.ts';
import { z } from 'zod';
import { jsonText } from '../../base/json-text.ts';
import type { RedisConnection } from '../connect.ts';
import { loadScript, runScript, type RunPlace } from '../script.ts';
import type { Keys } from '../keys.ts';
import { inTime, isUnavailable, redisError, named } from '../errors.ts';
import { announcedTtlMs, workerTtlMs } from '../fleet/queue-directory.ts';
import { lookLater, relist } from '../look-later.ts';
import { forgetOpen, lookSoon } from './open-runs.ts';
import { pairsOf } from '../../base/pairs.ts';
import { quarantineQueue } from '../../contract/queues.ts';

/** What the reconciler needs to know about a run that has not ended. */
export interface OpenRunInfo {
  readonly runId: string;
  /** There is a record that cannot be read, or the node that would have it cannot be asked. */
  readonly unread?: 'illegible' | RunError;
  /** Absent when there is no record: it expired, or its creation never finished. */
  readonly run?: {
    readonly status: RunStatus;
    readonly kind: JobKind;
    readonly queue: string;
    readonly segment: number;
    readonly putBacks: number;
    readonly tenant: string;
    readonly agentId: string;
    readonly thread: string | undefined;
    /** What a suspended run waits for. */
    readonly pending: readonly PendingItem[];
    /** It is suspended although something came that its journal does not have, or a run that it waits for never began. */
    readonly mayGoOn: boolean;
  };
  /** Lifecycle events of it could not be told yet. */
  readonly untold: boolean;
  /** The time under which it was found. */
  readonly dueAt: string;
  /** Milliseconds since the record last changed, or since the entry was made when there is no record. */
  readonly ageMs: number;
}

/** One live worker process, as it announces itself. */
export interface WorkerInfo {
  readonly name: string;
  readonly queues: readonly string[];
  readonly concurrency: number;
  readonly active: number;
  readonly startedAt: string;
  readonly version: string;
}

/** The fleet's view of its runs and of itself; what the reconciler and the heartbeat use. */
export interface Supervision {
  /** Open runs whose time to be looked at has come, soonest first. Tells lifecycle events that they have left. */
  dueRuns(limit: number): Promise<readonly OpenRunInfo[]>;
  /** When these are looked at again, unless something has happened to them since. */
  lookAgain(
    runs: readonly { readonly runId: string; readonly dueAt: string; readonly nextMs: number }[],
  ): Promise<void>;
  /** How many runs are looked at within this time. */
  dueWithin(ms: number): Promise<number>;
  /** Makes sure that a page of the open runs, after an offset, is looked at. Answers the next offset; 0: begin again. */
  relist(offset: number, limit: number): Promise<number>;
  /** The same for threads that runs hold. */
  relistThreads(offset: number, limit: number): Promise<number>;
  /** How many of those are due by then. */
  threadsDueWithin(ms: number): Promise<number>;
  /**
   * Gives a run a new segment in a queue, so that a new job can be made for it. Answers the segment, or undefined when
   * the run has ended or is no longer at `fromSegment`: then somebody else was faster.
   */
  requeue(runId: string, fromSegment: number, queue: string): Promise<number | undefined>;
  /** Removes a run from the set of open runs. */
  forget(runId: string): Promise<void>;
  /** Adds to a counter that `doctor` shows. */
  count(counter: 'put_back' | 'given_up' | 'quarantined' | 'effects_failed', by: number): Promise<void>;
  /** Announces this worker; entries that were not renewed for 15 s count as gone. */
  heartbeat(worker: WorkerInfo): Promise<void>;
  /** Says that this process lives, for so many milliseconds by the clock of the store. */
  pulse(name: string, forMs: number): Promise<void>;
  /** Says which run this worker watches, or that it watches none. */
  watching(name: string, runId: string | undefined): Promise<void>;
  /** Did this run lose that worker by no doing of its own: it lives, or it died while it watched another run? */
  isExcused(name: string, runId: string): Promise<boolean>;
  farewell(name: string): Promise<void>;
  liveWorkers(): Promise<readonly WorkerInfo[]>;
  /** Publishes the public part of the loaded agents for producers. */
  announceAgents(agents: readonly AgentView[]): Promise<void>;
  /** Forgets agents that nobody has announced for seven days, and answers the queues of which that is true. */
  unannounced(): Promise<readonly string[]>;
  forgetQueue(queue: string): Promise<void>;
}

const requeueScript = loadScript(import.meta.url, './requeue.lua');

/** By then somebody has taken up the runs of a worker that died. */
const watchedTtlMs = 600_000;

/** The supervision port in Redis. Times that decide come from this process; they only delay a repair, never cause one. */
export function redisSupervision(place: Pick<RunPlace, 'redis' | 'keys' | 'lifecycle'>): Supervision {
  const { redis, keys, lifecycle } = place;
  return {
    async dueRuns(limit) {
      const now = Date.now();
      const range = ['-inf', now, 'WITHSCORES', 'LIMIT', 0, limit] as const;
      const flat = await inTime(redis.zrangebyscore(keys.checks, ...range), 'list of open runs that are due');
      return await Promise.all(
        pairsOf(flat).map(async ([runId, dueAt]): Promise<OpenRunInfo> => {
          const untold = !(await lifecycle.tell(runId));
          const found = { runId, dueAt, untold, ageMs: 0 };
          try {
            const read = inTime(readOpenRun(redis, keys, runId, now), `read of open run ${runId}`);
            return { ...found, ...(await read) };
          } catch (error) {
            // One record that cannot be read, or a node that is away, must not hide the others of its page.
            if (error instanceof z.ZodError) return { ...found, unread: 'illegible' };
            const failure = redisError(error, `read of open run ${runId}`);
            if (isUnavailable(failure)) return { ...found, unread: failure };
            throw failure;
          }
        }),
      );
    },
    async lookAgain(runs) {
      const again = runs.map(({ runId, dueAt, nextMs }) => [runId, dueAt, nextMs] as const);
      await inTime(lookLater(redis, keys.checks, again), 'next look at open runs');
    },
    async dueWithin(ms) {
      return await inTime(redis.zcount(keys.checks, '-inf', Date.now() + ms), 'count of open runs');
    },
    async relist(offset, limit) {
      return await inTime(
        relist(redis, { listed: keys.open, checks: keys.checks }, offset, limit),
        'list of open runs',
      );
    },
    async threadsDueWithin(ms) {
      return await inTime(redis.zcount(keys.threadChecks, '-inf', Date.now() + ms), 'count of held threads');
    },
    async relistThreads(offset, limit) {
      const lists = { listed: keys.threadsHeld, checks: keys.threadChecks };
      return await inTime(relist(redis, lists, offset, limit), 'list of held threads');
    },
    async requeue(runId, fromSegment, queue) {
      const now = new Date().toISOString();
      await lookSoon({ redis, keys }, runId);
      const args = [fromSegment, queue, now];
      const doing = `requeue of run ${runId}`;
      const segment = Number(await runScript(redis, requeueScript, [keys.run(runId)], args, { doing }));
      return segment < 0 ? undefined : segment;
    },
    async forget(runId) {
      await forgetOpen(place, runId, (await redis.hget(keys.run(runId), 'tenant')) ?? undefined);
    },
    async count(counter, by) {
      await redis.hincrby(keys.counters, counter, by);
      await redis.hset(keys.counters, `${counter}_at`, Date.now());
    },
    async heartbeat(worker) {
      await redis.zadd(keys.workers, Date.now(), worker.name);
      await redis.hset(keys.workerInfo, worker.name, jsonText(worker));
      const queues = worker.queues.filter((queue) => queue !== quarantineQueue);
      if (queues.length > 0) await redis.zadd(keys.queues, ...queues.flatMap((queue) => [Date.now(), queue]));
    },
    async pulse(name, forMs) {
      await redis.set(keys.pulse(name), '1', 'PX', Math.round(forMs));
    },
    async watching(name, runId) {
      const key = keys.watched(name);
      const told: Promise<unknown> = runId === undefined ? redis.del(key) : redis.set(key, runId, 'PX', watchedTtlMs);
      await named(`watch of worker ${name}`, told);
    },
    async isExcused(name, runId) {
      const asked = Promise.all([redis.exists(keys.pulse(name)), redis.get(keys.watched(name))]);
      const [alive, watched] = await named(`look after worker ${name}`, asked);
      return alive > 0 || (watched !== null && watched !== runId);
    },
    async farewell(name) {
      await redis.del(keys.pulse(name));
      await redis.zrem(keys.workers, name);
      await redis.hdel(keys.workerInfo, name);
    },
    async liveWorkers() {
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
    async announceAgents(agents: readonly AgentView[]) {
      if (agents.length === 0) return;
      const seenAt = new Date().toISOString();
      await redis.hset(
        keys.agents,
        Object.fromEntries(agents.map((agent) => [agent.id, jsonText({ ...agent, seenAt })])),
      );
    },
    async unannounced() {
      const before = Date.now() - announcedTtlMs;
      const agents = Object.entries(await redis.hgetall(keys.agents));
      const stale = agents.filter(([, json]) => !(seenAtOf(json) > before)).map(([id]) => id);
      if (stale.length > 0) await redis.hdel(keys.agents, ...stale);
      return await redis.zrangebyscore(keys.queues, '-inf', before);
    },
    async forgetQueue(queue) {
      await redis.zrem(keys.queues, queue);
    },
  };
}

/** NaN for an entry that says nothing about it. */
function seenAtOf(json: string): number {
  try {
    return Date.parse(announced.parse(JSON.parse(json)).seenAt);
  } catch {
    return Number.NaN;
  }
}

async function readOpenRun(
  redis: RedisConnection,
  keys: Keys,
  runId: string,
  now: number,
): Promise<Omit<OpenRunInfo, 'dueAt' | 'untold'>> {
  const [status, kind, queue, segment, updatedAt, putBacks, tenant, pending, agent, thread] = await redis.hmget(
    keys.run(runId),
    'status',
    'kind',
    'queue',
    'segment',
    'updatedAt',
    'putBacks',
    'tenant',
    'pending',
    'agent',
    'thread',
  );
  if (!status || !kind || !queue || !segment)
    return { runId, ageMs: now - Number((await redis.zscore(keys.open, runId)) ?? 0) };
  const items = pendingOf(pending);
  const run = {
    status: runStatus.parse(status),
    kind: jobKind.parse(kind),
    queue,
    segment: Number(segment),
    putBacks: Number(putBacks ?? 0),
    tenant: tenant ?? '',
    agentId: agent ?? '',
    thread: thread || undefined,
    pending: items,
    mayGoOn: status === 'suspended' && (await mayGoOn(redis, keys, runId, items)),
  };
  return { runId, run, ageMs: updatedAt ? now - Date.parse(updatedAt) : Number.POSITIVE_INFINITY };
}

/** One that waits for several runs has the ends of some of them, and goes on waiting for those that exist. */
async function mayGoOn(
  redis: RedisConnection,
  keys: Keys,
  runId: string,
  pending: readonly PendingItem[],
): Promise<boolean> {
  if ((await redis.exists(keys.later(runId))) === 0) return (await redis.exists(keys.decided(runId))) > 0;
  const below = pending.filter(({ kind }) => kind === 'child');
  const found = await Promise.all(below.map(({ id }) => redis.exists(keys.run(id))));
  return found.includes(0);
}

const announced = z.object({ seenAt: z.string() });
const pendingItems = z.array(pendingItem);

/** One record that cannot be read must not hide the others of its page. */
function pendingOf(json: string | null | undefined): readonly PendingItem[] {
  try {
    return pendingItems.parse(JSON.parse(json ?? '[]'));
  } catch {
    return [];
  }
}
