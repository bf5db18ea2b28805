import { z } from 'zod';
import { pastTime } from '../../../shared/base/past-time.ts';
import { parseAs } from '../../../shared/base/problems.ts';
import { RunError } from '../../../shared/base/errors.ts';
import { maxSeriesPoints, seriesSteps, type SeriesReport } from '../../../shared/contract/report/series.ts';
import { bucketFor, readSeries, type SeriesRange } from '../../../shared/state/series/read-series.ts';
import type { TenantClient } from '../client-core.ts';

const [fine, coarse] = seriesSteps;

const seriesQuery = z.strictObject({
  from: pastTime.prefault('1h'),
  to: pastTime.optional(),
  step: z.int().min(fine.stepS).max(86_400).multipleOf(fine.stepS).optional(),
});

export interface SeriesQuery {
  /** Where the first step begins, or so long ago: an ISO time, or `1h`, `7d`. Default: an hour ago. */
  readonly from?: string;
  /** Where the last one ends. Default: now. */
  readonly to?: string;
  /** Seconds of one step: a multiple of 10. Default: 10 within the last hour, else 600. */
  readonly step?: number;
}

/** What the tenant's runs did over time. Throws `validation` for times and steps for which there are no counters. */
export async function readTenantSeries(query: SeriesQuery, { core, tenant }: TenantClient): Promise<SeriesReport> {
  const range = rangeOf(query, Date.now());
  return await core.reach((redis) => readSeries({ redis, keys: core.keys }, tenant, range));
}

function rangeOf(query: SeriesQuery, nowMs: number): SeriesRange {
  const { from, to = nowMs, step } = parseAs(seriesQuery, query, 'the query is not valid');
  const ageS = (nowMs - from) / 1_000;
  if (from >= to) throw wrong('from', 'from must be before to');
  // A little more than what is kept, so that `1h` is still in time when the request arrives.
  const isRecent = ageS <= fine.keptS + fine.stepS;
  const stepS = step ?? (isRecent ? fine.stepS : coarse.stepS);
  if (ageS > coarse.keptS + coarse.stepS)
    throw wrong('from', 'from must be within the last 7 days: counters are kept for so long');
  if (bucketFor(stepS) === fine.stepS && !isRecent)
    throw wrong(
      'step',
      `counters of ${fine.stepS} s are kept for an hour: ask for a step that is a multiple of ${coarse.stepS}`,
    );
  const fromS = Math.floor(from / 1_000 / stepS) * stepS;
  const toS = Math.ceil(Math.min(to, nowMs + stepS * 1_000) / 1_000 / stepS) * stepS;
  if ((toS - fromS) / stepS > maxSeriesPoints + 1)
    throw wrong('step', `at most ${maxSeriesPoints} steps at once: ask for a longer step, or less time`);
  return { fromS, toS, stepS };
}

function wrong(path: string, message: string): RunError {
  return new RunError('validation', message, { details: [{ path, message }] });
}
