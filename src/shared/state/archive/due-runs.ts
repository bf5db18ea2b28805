import type { KeySpace } from '../keys.ts';
import { loadScript, runScript, runScriptAll, type RunKeySpace } from '../script.ts';
import { lookLater } from '../run/look-later.ts';
import type { EndedSpace } from './ended-run.ts';

const takeScript = loadScript(import.meta.url, './take-due.lua');
const archivedScript = loadScript(import.meta.url, './archived.lua');

/** A worker that has taken a run and has not written it by then has probably died. */
export const archiveLeaseMs = 60_000;

/** The process that ended a run has so long until others take it: it need not read all of it. */
const ownFirstMs = 3_000;

/** Lists an ended run for the archive. */
export async function listForArchive({ redis, keys, logTails }: EndedSpace, runId: string): Promise<void> {
  const isOwn = logTails?.ended(runId) !== undefined;
  await redis.zadd(keys.archiveDue, Date.now() + (isOwn ? ownFirstMs : 0), runId);
}

/** Ended runs that this worker has to write, until their lease is over. */
export interface TakenRuns {
  readonly runIds: readonly string[];
  readonly lease: string;
}

/** Takes runs that this process has ended, and then those that have been due for the longest time, at most `limit` of them. */
export async function takeDue({ redis, keys, logTails }: EndedSpace, limit: number): Promise<TakenRuns> {
  const doing = 'take of ended runs';
  const own = logTails?.endedRuns(limit) ?? [];
  const args = [limit, archiveLeaseMs, ownFirstMs, ...own];
  const reply = (await runScript(redis, takeScript, [keys.archiveDue], args, { doing })) as readonly [string, string[]];
  return { lease: reply[0], runIds: reply[1] };
}

/** A run of which the end that is named here was written, or is not to be. */
export interface SettledRun {
  readonly runId: string;
  readonly endedAt: string;
}

/**
 * Lets what runs leave in Redis go at its time, now that they are in the archive or are not to be there. One that was redriven since
 * stays as it is.
 */
export async function noteArchived(
  space: RunKeySpace,
  runs: readonly SettledRun[],
): Promise<PromiseSettledResult<unknown>[]> {
  const { run, journal, events, decided, decisions } = space.keys;
  const own = [run, journal, events, decided, decisions];
  const calls = runs.map(({ runId, endedAt }) => ({
    keys: own.map((key) => key(runId)),
    args: [endedAt, Date.parse(endedAt)],
    doing: `retention of run ${runId}`,
  }));
  return await runScriptAll(space.redis, archivedScript, calls);
}

/** These are no longer due, unless they have ended again since. */
export async function settleTaken({ redis, keys, logTails }: EndedSpace, { runIds, lease }: TakenRuns): Promise<void> {
  const done = runIds.map((runId) => [runId, lease, undefined] as const);
  await lookLater(redis, keys.archiveDue, done);
  logTails?.forget(runIds);
}

const looked = 100;

/** How many ended runs wait for the archive, and how long ago the oldest of some ended: a lease says nothing about that. */
export async function waitingRuns(
  { redis, keys }: KeySpace,
  nowMs: number,
): Promise<{ readonly waiting: number; readonly oldestWaitingMs: number }> {
  const [waiting, runIds] = await Promise.all([
    redis.zcard(keys.archiveDue),
    redis.zrange(keys.archiveDue, 0, String(looked - 1)),
  ]);
  const ends = await Promise.all(runIds.map((runId) => redis.hget(keys.run(runId), 'endedAt')));
  const oldestMs = Math.min(nowMs, ...ends.flatMap((end) => (end ? [Date.parse(end)] : [])));
  return { waiting, oldestWaitingMs: nowMs - oldestMs };
}
