import { useMemo } from 'preact/hooks';
import type { SeriesReport } from '../../../../shared/contract/report/series.ts';
import { withQuery } from '../../api.ts';
import { useQuery } from '../../query.ts';
import { Chart } from '../../ui/chart.tsx';
import { formatCount, formatMoney } from '../../ui/money.tsx';
import { Loading, Problem } from '../../ui/states.tsx';
import { formatDuration, Time } from '../../ui/time.tsx';
import { useUrlState } from '../../ui/url-state.ts';
import { chartsOf, longerSteps, type ChartData } from './chart-data.ts';

/** What is asked for by what the reader chose. */
const ranges = {
  hour: { label: 'The last hour', from: '1h', step: 30, everyMs: 5_000 },
  day: { label: 'The last day', from: '24h', step: 600, everyMs: 30_000 },
  week: { label: 'The last week', from: '7d', step: 3_600, everyMs: 60_000 },
} as const;

const maxTableRows = 30;

const formats = { count: formatCount, milliseconds: formatDuration, money: formatMoney };

/** What the runs of the tenant did over time; it moves on by itself. */
export function Charts() {
  const [{ range }, setUrl] = useUrlState();
  const chosen = range === 'week' || range === 'day' ? range : 'hour';
  const { from, step, everyMs } = ranges[chosen];
  const { data, error, reload } = useQuery<SeriesReport>(withQuery('/v1/metrics/series', { from, step }), everyMs);
  return (
    <section class="stack" aria-labelledby="charts-title">
      <div class="row between">
        <h2 id="charts-title">Over time</h2>
        <div class="row" role="group" aria-label="Time that the charts show">
          {Object.entries(ranges).map(([name, { label }]) => (
            <button
              key={name}
              type="button"
              aria-pressed={name === chosen}
              class={name === chosen ? 'primary' : undefined}
              onClick={() => setUrl({ range: name === 'hour' ? undefined : name })}
            >
              {label}
            </button>
          ))}
        </div>
      </div>
      {data ? <Drawn report={data} /> : error ? <Problem error={error} retry={reload} /> : <Loading />}
    </section>
  );
}

function Drawn({ report }: { report: SeriesReport }) {
  const { points, stepS } = report;
  const charts = useMemo(() => chartsOf(points, stepS), [report]);
  const times = useMemo(() => points.map(({ at }) => Date.parse(at) / 1_000), [report]);
  const rows = useMemo(() => longerSteps(points, stepS, maxTableRows), [report]);
  const tables = useMemo(() => chartsOf(rows.points, rows.stepS), [rows]);
  return (
    <div class="charts">
      {charts.map((chart, at) => (
        <figure key={chart.id} class="card">
          <figcaption>
            <h3>{chart.title}</h3>
          </figcaption>
          <Chart
            title={chart.title}
            times={times}
            lines={chart.lines}
            format={formats[chart.unit]}
            whole={chart.unit === 'count'}
          />
          <AsTable chart={tables[at] ?? chart} times={rows.points.map((point) => point.at)} />
        </figure>
      ))}
    </div>
  );
}

/** The same in numbers, the latest first. */
function AsTable({ chart: { title, lines, unit }, times }: { chart: ChartData; times: readonly string[] }) {
  return (
    <details>
      <summary>{title} as a table</summary>
      <div class="scrolls" tabIndex={0} role="region" aria-label={`${title} in numbers`}>
        <table class="simple">
          <thead>
            <tr>
              <th scope="col">From</th>
              {lines.map(({ label }) => (
                <th key={label} scope="col" class="end">
                  {label}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {[...times.entries()].toReversed().map(([row, at]) => (
              <tr key={at}>
                <td>
                  <Time at={at} />
                </td>
                {lines.map(({ label, values }) => (
                  <td key={label} class="end number">
                    {values[row] == null ? '–' : formats[unit](values[row])}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}
