import { z } from 'zod';
import type { AgentView } from '../../contract/agent/agent.ts';
import { pendingItem, type PendingItem } from '../../contract/event.ts';
import { jsonText } from '../../base/json-text.ts';
import type { RedisConnection } from '../connect.ts';
import { loadScript, runScript, type RunPlace } from '../script.ts';
import type { Keys } from '../keys.ts';
import { inTime, isUnavailable, redisError } from '../errors.ts';
import { announcedTtlMs, workerTtlMs } from '../fleet/queue-directory.ts';
import { lookLater, relist } from '../look-later.ts';
import { forgetOpen, lookSoon } from './open-runs.ts';
import { pairsOf } from '../../base/pairs.ts';
import { quarantineQueue } from '../../contract/queues.ts';
import { jobKind, runStatus } from '../../contract/run.ts';
import type { OpenRunInfo, Supervision, WorkerInfo } from './supervision.ts';

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
      const segment = Number(await runScript(redis, requeueScript, [keys.run(runId)], [fromSegment, queue, now]));
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
      const told = runId === undefined ? redis.del(key) : redis.set(key, runId, 'PX', watchedTtlMs);
      await told.catch((error: unknown) => {
        throw redisError(error, `watch of worker ${name}`);
      });
    },
    async isExcused(name, runId) {
      const asked = Promise.all([redis.exists(keys.pulse(name)), redis.get(keys.watched(name))]);
      const [alive, watched] = await asked.catch((error: unknown) => {
        throw redisError(error, `look after worker ${name}`);
      });
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
    ...(thread && { thread }),
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
