import { jsonOr } from '../../base/json.ts';
import type { RunError } from '../../base/errors.ts';
import { type PendingItem, pendingItem } from '../../contract/event.ts';
import { type RunRecord, jobKind, runStatus } from '../../contract/run.ts';
import { z } from 'zod';
import { loadScript, runScript, type RunKeySpace } from '../script.ts';
import type { KeySpace } from '../keys.ts';
import { inTime, isUnavailable, redisError } from '../errors.ts';
import { relist, forgetOpen, lookSoon } from './open-runs.ts';
import { lookLater } from './look-later.ts';
import { pairsOf } from '../../base/collections.ts';
import { redisFleet } from '../fleet/fleet.ts';

/** What the reconciler needs to know about a run that has not ended. */
export interface OpenRunInfo {
  readonly runId: string;
  /** There is a record that cannot be read, or the node that would have it cannot be asked. */
  readonly unread?: 'illegible' | RunError;
  /** Absent when there is no record: it expired, or its creation never finished. */
  readonly run?: Readonly<Pick<RunRecord, 'status' | 'kind' | 'queue' | 'segment' | 'tenant'>> & {
    readonly requeues: number;
    readonly agentId: string;
    readonly thread: string | undefined;
    /** What a suspended run waits for. */
    readonly pending: readonly PendingItem[];
    /** It is suspended although something came that its journal does not have, or a child that it waits for never began. */
    readonly mayGoOn: boolean;
  };
  /** Lifecycle events of it could not be published yet. */
  readonly unpublished: boolean;
  /** The time under which it was found. */
  readonly dueAt: string;
  /** Milliseconds since the record last changed, or since the entry was made when there is no record. */
  readonly ageMs: number;
}

/** The fleet's view of its open runs; what the reconciler uses. */
export type Supervision = ReturnType<typeof redisSupervision>;

const requeueScript = loadScript(import.meta.url, './requeue.lua');

/** The supervision port in Redis. Times that decide come from this process; they only delay a repair, never cause one. */
export function redisSupervision(space: Pick<RunKeySpace, 'redis' | 'keys' | 'lifecycle'>) {
  const { redis, keys, lifecycle } = space;
  return {
    ...redisFleet(space),
    /** Open runs that are due to be checked, soonest first. Publishes lifecycle events that they have left. */
    async dueRuns(limit: number): Promise<readonly OpenRunInfo[]> {
      const now = Date.now();
      const range = ['-inf', now, 'WITHSCORES', 'LIMIT', 0, limit] as const;
      const flat = await inTime(redis.zrangebyscore(keys.checks, ...range), 'list of open runs that are due');
      return await Promise.all(
        pairsOf(flat).map(async ([runId, dueAt]): Promise<OpenRunInfo> => {
          const unpublished = !(await lifecycle.publish(runId));
          const found = { runId, dueAt, unpublished, ageMs: 0 };
          try {
            const read = inTime(readOpenRun(space, runId, now), `read of open run ${runId}`);
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
    /** When these are checked again, unless something has happened to them since. */
    async lookAgain(
      runs: readonly (Pick<OpenRunInfo, 'runId' | 'dueAt'> & { readonly nextMs: number })[],
    ): Promise<void> {
      const again = runs.map(({ runId, dueAt, nextMs }) => [runId, dueAt, nextMs] as const);
      await inTime(lookLater(redis, keys.checks, again), 'next look at open runs');
    },
    /** How many runs are due within this time. */
    async dueWithin(ms: number): Promise<number> {
      return await inTime(redis.zcount(keys.checks, '-inf', Date.now() + ms), 'count of open runs');
    },
    /** Makes sure that a page of the open runs, after an offset, is checked. Returns the next offset; 0: begin again. */
    async relist(offset: number, limit: number): Promise<number> {
      const lists = { listed: keys.open, checks: keys.checks };
      return await inTime(relist(redis, lists, offset, limit), 'list of open runs');
    },
    /** How many locked threads are due by then. */
    async threadsDueWithin(ms: number): Promise<number> {
      return await inTime(redis.zcount(keys.threadChecks, '-inf', Date.now() + ms), 'count of locked threads');
    },
    /** As `relist`, for locked threads. */
    async relistThreads(offset: number, limit: number): Promise<number> {
      const lists = { listed: keys.threadsEntered, checks: keys.threadChecks };
      return await inTime(relist(redis, lists, offset, limit), 'list of locked threads');
    },
    /**
     * Gives a run a new segment in a queue, so that a new job can be added. Undefined: the run has ended or is no longer at
     * `fromSegment`, because another process was faster.
     */
    async requeue(runId: string, fromSegment: number, queue: string): Promise<number | undefined> {
      const now = new Date().toISOString();
      await lookSoon({ redis, keys }, runId);
      const args = [fromSegment, queue, now];
      const doing = `requeue of run ${runId}`;
      const segment = Number(await runScript(redis, requeueScript, [keys.run(runId)], args, { doing }));
      return segment < 0 ? undefined : segment;
    },
    /** Removes a run from the set of open runs. */
    async forget(runId: string): Promise<void> {
      await forgetOpen(space, runId);
    },
  };
}

const readFields = 'status kind queue segment updatedAt requeues tenant pending agent thread'.split(' ');

async function readOpenRun({ redis, keys }: KeySpace, runId: string, now: number) {
  const [status, kind, queue, segment, updatedAt, requeues, tenant, pending, agent, thread] = await redis.hmget(
    keys.run(runId),
    ...readFields,
  );
  if (!status || !kind || !queue || !segment)
    return { runId, ageMs: now - Number((await redis.zscore(keys.open, runId)) ?? 0) };
  const items = pendingOf(pending);
  const run = {
    status: runStatus.parse(status),
    kind: jobKind.parse(kind),
    queue,
    segment: Number(segment),
    requeues: Number(requeues ?? 0),
    tenant: tenant ?? '',
    agentId: agent ?? '',
    thread: thread || undefined,
    pending: items,
    mayGoOn: status === 'suspended' && (await mayGoOn({ redis, keys }, runId, items)),
  };
  return { runId, run, ageMs: updatedAt ? now - Date.parse(updatedAt) : Number.POSITIVE_INFINITY };
}

/** A run that waits for a group has the ends of some children, and waits on for those that exist. */
async function mayGoOn({ redis, keys }: KeySpace, runId: string, pending: readonly PendingItem[]): Promise<boolean> {
  if ((await redis.exists(keys.later(runId))) === 0) return (await redis.exists(keys.decided(runId))) > 0;
  const children = pending.filter(({ kind }) => kind === 'child');
  const found = await Promise.all(children.map(({ id }) => redis.exists(keys.run(id))));
  return found.includes(0);
}

const pendingItems = z.array(pendingItem);

/** One record that cannot be read must not hide the others of its page. */
function pendingOf(json: string | null | undefined): readonly PendingItem[] {
  return pendingItems.safeParse(jsonOr(json ?? '[]')).data ?? [];
}
