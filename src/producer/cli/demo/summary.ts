import { formatUsd } from '../../../shared/contract/money.ts';
import type { RunView } from '../../../shared/contract/run.ts';
import type { Millrace } from '../../client/millrace.ts';
import { count, duration, table } from '../show/paint.ts';

/** What a set of runs came to, as text and as the number that decides over the exit code. */
export async function summaryOf(
  mill: Pick<Millrace, 'get'>,
  runIds: readonly string[],
  elapsedMs: number,
): Promise<{ readonly text: string; readonly completed: number }> {
  const views = await Promise.all(runIds.map((runId) => mill.get(runId)));
  const completed = views.filter(({ status }) => status === 'completed').length;
  const recovered = views.filter(({ recoveries }) => recoveries > 0).length;
  const sum = (of: (view: RunView) => number) => views.reduce((total, view) => total + of(view), 0);
  const durations = views.flatMap(({ durationMs }) => durationMs ?? []).sort((a, b) => a - b);
  const rows: [string, string][] = [
    ['runs', count(views.length)],
    ['completed', count(completed)],
    ['recovered', `${count(recovered)} of them by another worker`],
    ['tokens', count(sum(({ usage }) => usage?.total ?? 0))],
    [
      'cost',
      `${formatUsd(sum(({ costMicrocents }) => costMicrocents))} (what the models that are stood in for would have cost)`,
    ],
    ['run time', `p50 ${duration(percentile(durations, 0.5))}, p95 ${duration(percentile(durations, 0.95))}`],
    ['rate', `${((views.length * 1_000) / elapsedMs).toFixed(1)} runs/s in ${duration(elapsedMs)}`],
  ];
  return { text: `\n${table(rows)}`, completed };
}

/** The smallest value that at least this share of the sorted values does not exceed; 0 of none. */
function percentile(sorted: readonly number[], share: number): number {
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? 0;
}
