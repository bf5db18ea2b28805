import { z } from 'zod';
import { runId as runIdSchema } from '../../shared/base/ids.ts';
import { pairsOf } from '../../shared/base/collections.ts';
import type { RedisConnection } from '../../shared/state/connect.ts';
import { listedRecord } from '../../shared/state/run/listed-record.ts';
import { viewOf, type RunRecord, type RunView } from '../../shared/contract/run.ts';
import { inGroups } from './read-run.ts';
import { archivedRuns, isForgotten } from './record/archived-list.ts';
import { fitsArchived, runFilter, whichFit } from './run-filter.ts';
import { reach, type Reached, type TenantClient } from './client-core.ts';
import { parseAs } from '../../shared/base/problems.ts';
import { cleanJson } from '../../shared/base/text.ts';

const batchSize = 100;
const maxScanned = 2_000;
/** Runs that one call reads from the archive, about. */
const maxArchivedRead = 300;
export const runListCursor = z.string().regex(/^\d{1,16}-[0-9A-Z]{26}$/, 'is not a cursor of this list');

const listQuery = runFilter.extend({
  /** From the previous page; absent for the first. */
  cursor: runListCursor.optional(),
  /** 1 to 100, default 50. */
  limit: z.int().min(1).max(100).default(50),
});
export type ListQuery = Readonly<z.input<typeof listQuery>>;
type Query = z.output<typeof listQuery>;

/** A run in an index of a tenant: a sorted set by the time of its creation, or of the question to people. */
export interface IndexEntry {
  readonly runId: string;
  readonly atMs: number;
}

/** A page of runs. No cursor means the end. */
export interface RunsPage {
  readonly runs: readonly RunView[];
  readonly cursor?: string;
}

/** A page of a tenant's runs, newest first. Looks at no more than 2,000 entries. */
export async function listRuns(input: ListQuery, client: TenantClient): Promise<RunsPage> {
  const query = parseAs(listQuery, cleanJson(input), 'the query is not valid');
  return await reach(client, async (at) => {
    const runs: RunView[] = [];
    let last = startOf(query);
    const afterMs = query.after === undefined ? -Infinity : Date.parse(query.after);
    let archivedRead = 0;
    for (let scanned = 0; scanned < maxScanned && archivedRead < maxArchivedRead; scanned += batchSize) {
      const found = await entriesAfter(last, at.core.keys.index(at.tenant), batchSize, at.redis);
      const entries = found.filter(({ atMs }) => atMs >= afterMs);
      const { views, expired } = await readViews(entries, query, query.limit - runs.length, at);
      archivedRead += expired;
      for (const entry of entries) {
        last = entry;
        const view = views.get(entry.runId);
        if (view) runs.push(view);
        if (runs.length === query.limit) break;
      }
      const isRead = entries.length === 0 || last === entries.at(-1);
      if (entries.length < batchSize && isRead) return { runs };
      if (runs.length === query.limit) break;
    }
    return last === undefined ? { runs } : { runs, cursor: cursorOf(last) };
  });
}

/** The entry after which a page begins. No run has the id of the one that stands for `before`: it is newer than all of its time. */
export function startOf({ cursor, before }: Pick<Query, 'cursor' | 'before'>): IndexEntry | undefined {
  if (cursor !== undefined) return entryOf(cursor);
  return before === undefined ? undefined : { runId: '', atMs: Date.parse(before) };
}

/** Up to `count` entries of an index that follow one, which may be gone by now; the newest first unless it is said otherwise. */
export async function entriesAfter(
  last: IndexEntry | undefined,
  key: string,
  count: number,
  redis: RedisConnection,
  first: 'newest' | 'oldest' = 'newest',
): Promise<readonly IndexEntry[]> {
  const start = last === undefined ? 0 : await placesUpTo(last, key, first, redis);
  const end = start + count - 1;
  const flat =
    first === 'newest'
      ? await redis.zrevrange(key, start, end, 'WITHSCORES')
      : await redis.zrange(key, String(start), String(end), 'WITHSCORES');
  return pairsOf(flat).map(([runId, at]) => ({ runId, atMs: Number(at) }));
}

/** How many entries come before the one that follows this. */
async function placesUpTo(
  { runId, atMs }: IndexEntry,
  key: string,
  first: 'newest' | 'oldest',
  redis: RedisConnection,
): Promise<number> {
  const isNewestFirst = first === 'newest';
  const rankOf = isNewestFirst ? redis.zrevrank(key, runId) : redis.zrank(key, runId);
  const [rank, score] = await Promise.all([rankOf, redis.zscore(key, runId)]);
  if (rank !== null && Number(score) === atMs) return rank + 1;
  // It is gone, or has asked again since. Within one millisecond the order is that of the ids, and bulk requests put many runs into one.
  const others = isNewestFirst
    ? await redis.zcount(key, `(${atMs}`, '+inf')
    : await redis.zcount(key, '-inf', `(${atMs}`);
  const same = await redis.zrangebyscore(key, atMs, atMs);
  return others + same.filter((other) => (isNewestFirst ? other > runId : other < runId)).length;
}

/**
 * The views of the entries that match, at most `room` of them: of those whose record has expired as the archive has it. Entries that
 * are past the archive's time as well leave the index in the end.
 */
async function readViews(entries: readonly IndexEntry[], query: Query, room: number, at: Reached) {
  const { core, redis, tenant } = at;
  const found = await whichFit(
    entries.map(({ runId }) => runId),
    query,
    { redis, keys: core.keys },
  );
  const expired = entries.filter((_, i) => found[i] === 'gone');
  const archived = await archivedRuns(
    expired.map(({ runId }) => runId),
    at,
  );
  const dead = expired.filter(({ runId, atMs }) => !archived.has(runId) && isForgotten(atMs, at));
  if (dead.length > 0) await redis.zrem(core.keys.index(tenant), ...dead.map((entry) => entry.runId));
  const isMatch = ({ runId }: IndexEntry, i: number) => {
    const run = archived.get(runId);
    return run ? fitsArchived(run, query) : typeof found[i] === 'object';
  };
  const matches = entries.filter(isMatch).slice(0, room);
  const views = await inGroups(matches, async ({ runId }) => {
    const whole = archived.get(runId);
    if (whole) return archivedViewOf(whole.record);
    const record = await listedRecord(redis, core.keys.run(runId), tenant);
    return record && viewOf(record);
  });
  return {
    views: new Map(views.flatMap((view) => (view ? [[view.runId, view] as const] : []))),
    expired: expired.length,
  };
}

/** Without what no list shows. */
function archivedViewOf(record: RunRecord): RunView {
  const { files: _, unfinished: _unfinished, ...view } = viewOf(record);
  return view;
}

/** The cursor of a page that ends with this entry. */
export function cursorOf({ atMs, runId }: IndexEntry): string {
  return `${atMs}-${runId}`;
}

export function entryOf(cursor: string): IndexEntry {
  const [atMs, runId = ''] = cursor.split('-');
  return { runId: runIdSchema.parse(runId), atMs: Number(atMs) };
}

/**
 * Looks at some entries at random and drops those of which nothing is kept, and whose time in the archive is over for long. With twice
 * as many looked at as were added, at most about half of an index is dead entries, also when no client ever lists it.
 */
export async function pruneIndex(sample: number, client: TenantClient): Promise<void> {
  await reach(client, async ({ core, redis, tenant }) => {
    const key = core.keys.index(tenant);
    const flat = await redis.zrandmember(key, sample, 'WITHSCORES');
    const old = flat.filter((_, i) => i % 2 === 0 && isForgotten(Number(flat[i + 1]), client));
    const alive = await Promise.all(old.map((runId) => redis.exists(core.keys.run(runId))));
    const expired = old.filter((_, i) => alive[i] === 0);
    const archived = await archivedRuns(expired, client);
    const dead = expired.filter((runId) => !archived.has(runId));
    if (dead.length > 0) await redis.zrem(key, ...dead);
  });
}
