import type { RedisConnection } from '../../connect.ts';
import { loadScript, runScript, type RunKeySpace } from '../../script.ts';
import type { Clock } from '../../../base/clock.ts';
import { resumeRun, type ResumedRun } from './resume.ts';
import { withNamedErrors } from '../../errors.ts';
import type { JournalEntryOf } from '../../../contract/journal/journal.ts';

/** Times at which something is to happen to runs: one for each run. */
export interface Timers {
  /** In milliseconds since the epoch. Replaces an earlier one. */
  at(runId: string, dueMs: number): Promise<void>;
  /** Forgets that time. */
  clear(runId: string): Promise<void>;
  /**
   * Runs whose time has come, at most `limit`, each given to one caller only. One whose time is neither changed nor cleared is
   * due again a little later, because that caller may die.
   */
  due(limit: number): Promise<readonly string[]>;
}

/** Suspended runs with a time at which they resume, and the end of waits. */
export interface Waits extends Timers {
  /**
   * Ends the wait of a suspended run: queued at its next segment, with `run.resumed` in its log and `decided` in its journal,
   * which has every decision about its calls that came since the last one. Returns where its new job belongs, or undefined when
   * it is not suspended: another process was faster, or it has ended.
   */
  resume(runId: string, resumption: Resumption): Promise<ResumedRun | undefined>;
  /** Are there decisions about calls of this run that its journal does not have yet? They came while it was running. */
  hasDecisions(runId: string): Promise<boolean>;
}

/** After this a run that was due, and was not resumed, is due again: the worker that got it has probably died. */
export const dueLeaseMs = 30_000;

/** What ends the wait of a suspended run. */
export interface Resumption {
  /** In words, for `run.resumed`. */
  readonly summary: string;
  /** A person's decision, for the entry `decided` that every resumption adds to the journal. */
  readonly budget?: 'approve' | 'reject' | undefined;
  readonly by?: string | undefined;
}

/** What every end of a wait adds to the journal. */
export function decidedEntry({ budget, by }: Resumption, atMs: number): JournalEntryOf<'decided'> {
  return { v: 1, t: 'decided', at: new Date(atMs).toISOString(), by, budget };
}

const dueScript = loadScript(import.meta.url, './due.lua');
/** More would block Redis. */
const maxDue = 5_000;

/** Timers in one sorted set, by the time of Redis itself. */
export function redisTimers(redis: RedisConnection, key: string): Timers {
  return withNamedErrors('timers', {
    async at(runId, dueMs) {
      await redis.zadd(key, dueMs, runId);
    },
    async clear(runId) {
      await redis.zrem(key, runId);
    },
    async due(limit) {
      const args = [Math.min(limit, maxDue), dueLeaseMs];
      return (await runScript(redis, dueScript, [key], args, { doing: 'take of due timers' })) as readonly string[];
    },
  });
}

/** The waits in Redis. */
export function redisWaits(space: RunKeySpace & { readonly clock: Clock }): Waits {
  const { redis, keys, clock } = space;
  return withNamedErrors<Waits>('waits', {
    ...redisTimers(redis, keys.timers),
    async resume(runId, resumption) {
      const atMs = clock.now();
      const { summary } = resumption;
      return await resumeRun(space, runId, { summary, entry: decidedEntry(resumption, atMs), atMs });
    },
    async hasDecisions(runId) {
      return (await redis.exists(keys.decided(runId))) > 0;
    },
  });
}
