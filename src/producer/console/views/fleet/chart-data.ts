import type { SeriesPoint } from '../../../../shared/contract/report/series.ts';

/** The points of a report, as far as charts show them. */
export type ChartPoint = Pick<
  SeriesPoint,
  | 'at'
  | 'started'
  | 'ended'
  | 'failed'
  | 'queueWaitMs'
  | 'maxQueueWaitMs'
  | 'inputTokens'
  | 'outputTokens'
  | 'costMicrocents'
  | 'toolErrors'
>;

/** One line of a chart. A value that is not known, such as the wait of no run, is null. */
export interface Line {
  readonly label: string;
  readonly values: readonly (number | null)[];
}

export interface ChartData {
  readonly id: string;
  readonly title: string;
  readonly lines: readonly Line[];
  /** Money is in microcents. */
  readonly unit: 'rate' | 'milliseconds' | 'money';
}

/** What happened over time as charts: rates are of a minute or a second, so that steps of any length compare. */
export function chartsOf(points: readonly ChartPoint[], stepS: number): readonly ChartData[] {
  const minutes = stepS / 60;
  const line = (label: string, valueOf: (point: ChartPoint) => number | null): Line => ({
    label,
    values: points.map(valueOf),
  });
  return [
    {
      id: 'throughput',
      title: 'Runs a minute',
      unit: 'rate',
      lines: [line('started', (p) => p.started / minutes), line('ended', (p) => p.ended / minutes)],
    },
    {
      id: 'wait',
      title: 'Wait in the queue',
      unit: 'milliseconds',
      lines: [
        line('mean', (p) => (p.started === 0 ? null : p.queueWaitMs / p.started)),
        line('longest', (p) => (p.started === 0 ? null : p.maxQueueWaitMs)),
      ],
    },
    {
      id: 'tokens',
      title: 'Tokens a second',
      unit: 'rate',
      lines: [line('input', (p) => p.inputTokens / stepS), line('output', (p) => p.outputTokens / stepS)],
    },
    {
      id: 'cost',
      title: 'Cost a minute',
      unit: 'money',
      lines: [line('cost', (p) => p.costMicrocents / minutes)],
    },
    {
      id: 'errors',
      title: 'Errors a minute',
      unit: 'rate',
      lines: [line('failed runs', (p) => p.failed / minutes), line('failed tool calls', (p) => p.toolErrors / minutes)],
    },
  ];
}

/** `0`, `0.4`, `12.5`, `1,200`. */
export function formatRate(value: number): string {
  const digits = value === 0 || value >= 100 ? 0 : value < 1 ? 2 : 1;
  return value.toLocaleString('en-US', { maximumFractionDigits: digits });
}

/** So many rows at most: each is the mean of what is known of its steps, and the time where the first of them begins. */
export function tableRows(
  times: readonly string[],
  lines: readonly Line[],
  most: number,
): readonly { readonly at: string; readonly values: readonly (number | null)[] }[] {
  const perRow = Math.max(1, Math.ceil(times.length / most));
  const rows = Math.ceil(times.length / perRow);
  return Array.from({ length: rows }, (_, row) => ({
    at: times[row * perRow] ?? '',
    values: lines.map(({ values }) => mean(values.slice(row * perRow, (row + 1) * perRow))),
  })).toReversed();
}

function mean(values: readonly (number | null)[]): number | null {
  const known = values.filter((value) => value !== null);
  return known.length === 0 ? null : known.reduce((sum, value) => sum + value, 0) / known.length;
}
