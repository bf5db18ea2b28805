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
  readonly unit: 'count' | 'milliseconds' | 'money';
}

/** What happened over time as charts: what is counted is as many as there were in a step, and the title says how long one is. */
export function chartsOf(points: readonly ChartPoint[], stepS: number): readonly ChartData[] {
  const per = `per ${stepName(stepS)}`;
  const line = (label: string, valueOf: (point: ChartPoint) => number | null): Line => ({
    label,
    values: points.map(valueOf),
  });
  return [
    {
      id: 'throughput',
      title: `Runs ${per}`,
      unit: 'count',
      lines: [line('started', (p) => p.started), line('ended', (p) => p.ended)],
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
      title: `Tokens ${per}`,
      unit: 'count',
      lines: [line('input', (p) => p.inputTokens), line('output', (p) => p.outputTokens)],
    },
    { id: 'cost', title: `Cost ${per}`, unit: 'money', lines: [line('cost', (p) => p.costMicrocents)] },
    {
      id: 'errors',
      title: `Errors ${per}`,
      unit: 'count',
      lines: [line('failed runs', (p) => p.failed), line('failed tool calls', (p) => p.toolErrors)],
    },
  ];
}

/** `30 seconds`, `10 minutes`, `hour`. */
export function stepName(stepS: number): string {
  const [count, unit] =
    stepS % 3_600 === 0 ? [stepS / 3_600, 'hour'] : stepS % 60 === 0 ? [stepS / 60, 'minute'] : [stepS, 'second'];
  return count === 1 ? unit : `${count} ${unit}s`;
}

/** At most so many steps, each of as many of these as it takes: what is counted is added up, of the longest waits it is the longest. */
export function longerSteps(
  points: readonly ChartPoint[],
  stepS: number,
  most: number,
): { readonly points: readonly ChartPoint[]; readonly stepS: number } {
  const each = Math.max(1, Math.ceil(points.length / most));
  const steps = Array.from({ length: Math.ceil(points.length / each) }, (_, at) =>
    points.slice(at * each, (at + 1) * each).reduce(together),
  );
  return { points: steps, stepS: stepS * each };
}

function together(a: ChartPoint, b: ChartPoint): ChartPoint {
  return {
    at: a.at,
    started: a.started + b.started,
    ended: a.ended + b.ended,
    failed: a.failed + b.failed,
    queueWaitMs: a.queueWaitMs + b.queueWaitMs,
    maxQueueWaitMs: Math.max(a.maxQueueWaitMs, b.maxQueueWaitMs),
    inputTokens: a.inputTokens + b.inputTokens,
    outputTokens: a.outputTokens + b.outputTokens,
    costMicrocents: a.costMicrocents + b.costMicrocents,
    toolErrors: a.toolErrors + b.toolErrors,
  };
}
