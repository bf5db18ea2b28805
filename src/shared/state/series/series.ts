import { otherName } from '../../base/ids.ts';
import { maxSeriesNames, seriesSteps } from '../../contract/report/series.ts';
import type { RunEvent } from '../../contract/event.ts';
import { loadScript, runScript } from '../script.ts';
import type { KeySpace } from '../keys.ts';
import { incrementsOf, takenBackBy, type CountedRun, type Increments } from './counted.ts';

const script = loadScript(import.meta.url, './count.lua');

/** Longer than the oldest bucket: an event that is read again is known, or too old to be counted. */
const markTtlS = 8 * 86_400;

/** An entry of the lifecycle stream with what the record of its run says. */
export interface LifecycleEntry {
  readonly id: string;
  readonly event: RunEvent;
  readonly run: CountedRun;
}

interface CountedSpace extends KeySpace {
  readonly cluster: boolean;
}

/**
 * Counts entries of one tenant, in the order of the stream and without a gap, each once however many processes do so at the same
 * time. An entry up to the mark of the tenant is skipped. In a Cluster the stream may have an event twice: those of the
 * last ten minutes are remembered. Throws `queue_unavailable`.
 */
export async function countEntries(
  { redis, keys, cluster }: CountedSpace,
  tenant: string,
  entries: readonly LifecycleEntry[],
  nowMs: number,
): Promise<void> {
  const last = entries.at(-1);
  const mark = (await redis.get(keys.seriesMark(tenant))) ?? '';
  const uncounted = entries.filter(({ id }) => isLater(id, mark));
  if (!last || uncounted.length === 0) return;
  const seen = keys.seriesSeen(tenant);
  const names = uncounted.map(({ event }) => `${event.runId} ${event.sequenceNumber}`);
  const known = cluster ? await redis.zmscore(seen, ...names) : [];
  const isFirst = (_: unknown, index: number) => known[index] == null && names.indexOf(names[index] ?? '') === index;
  const fresh = cluster ? uncounted.filter(isFirst) : uncounted;
  const remembered = cluster ? names.filter(isFirst) : [];
  const buckets = [...bucketsOf(fresh, nowMs)];
  const counters = buckets.flatMap(([, { ttlS, sums }]) => [ttlS, sums.size, ...[...sums].flat()]);
  const bucketKeys = buckets.map(([, { stepS, at }]) => keys.series(tenant, stepS, at));
  const head = [mark, last.id, markTtlS, maxSeriesNames, otherName, nowMs, remembered.length, ...remembered];
  // Where another process counted in between, it has counted the same entries, or the next round does.
  await runScript(redis, script, [keys.seriesMark(tenant), seen, ...bucketKeys], [...head, ...counters], {
    doing: `counters of tenant ${tenant}`,
  });
}

interface Bucket {
  readonly stepS: number;
  /** Seconds since the epoch. */
  readonly at: number;
  readonly ttlS: number;
  readonly sums: Map<string, number>;
}

/** The buckets that these entries add to. None for what is older than the oldest one that is kept. */
function bucketsOf(entries: readonly LifecycleEntry[], nowMs: number): ReadonlyMap<string, Bucket> {
  const buckets = new Map<string, Bucket>();
  const add = (atMs: number, counters: Increments, sign: 1 | -1) => {
    if (counters.size === 0 || Number.isNaN(atMs)) return;
    for (const { stepS, keptS } of seriesSteps) {
      const at = Math.floor(atMs / 1_000 / stepS) * stepS;
      const ttlS = Math.ceil(at + keptS + 2 * stepS - nowMs / 1_000);
      if (ttlS <= 0) continue;
      const bucket = buckets.get(`${stepS} ${at}`) ?? { stepS, at, ttlS, sums: new Map<string, number>() };
      buckets.set(`${stepS} ${at}`, bucket);
      addTo(bucket.sums, counters, sign);
    }
  };
  for (const { event, run } of entries) {
    add(Date.parse(event.timestamp), incrementsOf(event, run), 1);
    const back = takenBackBy(event, run);
    if (back) add(back.atMs, back.counters, -1);
  }
  return buckets;
}

function addTo(sums: Map<string, number>, counters: Increments, sign: 1 | -1): void {
  for (const [counter, by] of counters) {
    const before = sums.get(counter) ?? 0;
    const count = countable(by) * sign;
    sums.set(counter, counter.startsWith('max:') ? Math.max(before, count) : before + count);
  }
}

/** Far above what one event can be about, and far below what a counter of Redis can hold. */
const maxIncrement = 2 ** 40;

/** Counters are whole numbers: one increment that is none would keep all later entries of all tenants from being counted. */
function countable(by: unknown): number {
  return typeof by === 'number' && by > 0 ? Math.min(Math.round(by), maxIncrement) : 0;
}

/** Whether a stream entry comes after another one. */
function isLater(id: string, mark: string): boolean {
  const [ms = 0, number = 0] = id.split('-').map(Number);
  const [markMs = 0, markNumber = 0] = mark.split('-').map(Number);
  return ms > markMs || (ms === markMs && number > markNumber);
}
