import { useMemo } from 'preact/hooks';
import type { CostReport } from '../../../../shared/contract/report/costs.ts';
import { withQuery } from '../../api.ts';
import { useQuery } from '../../query.ts';
import { formatCount, formatMoney, Money } from '../../ui/money.tsx';
import { Share } from '../../ui/share.tsx';
import { SimpleTable } from '../../ui/simple-table.tsx';
import { Empty, Loading, Problem } from '../../ui/states.tsx';
import { ExpensiveRuns } from './expensive-runs.tsx';
import { useUrlState } from '../../ui/url-state.ts';
import { notify } from '../../ui/notice.tsx';
import { saveFile } from '../../ui/save.ts';
import { csvOf, dayBefore, sumOf, sumsBy, sumsByDay, type CostSum } from './cost-sums.ts';

const everyMs = 15_000;

/** Days that the view can show, today among them. */
const ranges = [
  { days: 7, label: 'Last 7 days' },
  { days: 30, label: 'Last 30 days' },
  { days: 90, label: 'Last 90 days' },
] as const;

/** What the tenant's model calls cost, by day, model and agent. */
export function Costs() {
  const [{ days }, setUrl] = useUrlState();
  const range = ranges.find((each) => String(each.days) === days) ?? ranges[0];
  const path = withQuery('/v1/costs', { from: dayBefore(range.days - 1, Date.now()), to: dayBefore(0, Date.now()) });
  const { data, error, reload } = useQuery<CostReport>(path, everyMs);
  return (
    <section class="stack" aria-labelledby="costs-title">
      <div class="row between">
        <h2 id="costs-title">Spent</h2>
        <div class="row" role="group" aria-label="Days that are shown">
          {ranges.map((each) => (
            <button
              key={each.days}
              type="button"
              aria-pressed={each === range}
              class={each === range ? 'primary' : undefined}
              onClick={() => setUrl({ days: each === ranges[0] ? undefined : String(each.days) })}
            >
              {each.label}
            </button>
          ))}
          {data && (
            <button
              type="button"
              onClick={() =>
                void save(data).catch(() => notify('The costs could not be written as CSV: try it again.'))
              }
            >
              Download as CSV
            </button>
          )}
        </div>
      </div>
      {data ? (
        <Spent report={data} label={range.label} />
      ) : error ? (
        <Problem error={error} retry={reload} />
      ) : (
        <Loading what="Adding up" />
      )}
    </section>
  );
}

/** All rows: by day, agent and model. */
async function save({ rows, from, to }: CostReport): Promise<void> {
  saveFile(`costs-${from}-${to}.csv`, new Blob([await csvOf(rows)], { type: 'text/csv' }));
}

function Spent({ report, label }: { report: CostReport; label: string }) {
  const sums = useMemo(
    () => ({
      all: sumOf(label, report.rows),
      days: sumsByDay(report),
      models: sumsBy(report.rows, ({ provider, model }) => (provider ? `${provider}/${model ?? ''}` : model)),
      agents: sumsBy(report.rows, ({ agent }) => agent),
    }),
    [report, label],
  );
  return (
    <>
      <div class="grid">
        <Figure title={label} sum={sums.all} detail={`${report.from} to ${report.to}, days in UTC`} />
        <Figure title="Today" sum={sums.days[0] ?? sumOf('today', [])} detail={report.to} />
      </div>
      {sums.all.calls === 0 ? (
        <Empty title="No model was called in this time.">
          <p>
            <a href="/agents">Choose an agent and try it</a>, or look at more days.
          </p>
        </Empty>
      ) : (
        <div class="grid money-sums">
          <Sums title="By day" first="Day (UTC)" sums={sums.days} />
          <Sums title="By model" first="Model" sums={sums.models} />
          <Sums title="By agent" first="Agent" sums={sums.agents} hrefOf={agentLink} />
        </div>
      )}
      {sums.all.calls > 0 && <ExpensiveRuns from={report.from} to={report.to} />}
    </>
  );
}

/** Work that is no agent's has no page. */
function agentLink(agent: string): string | undefined {
  return agent === noAgent ? undefined : `/agents/${encodeURIComponent(agent)}`;
}

/** Whose costs are those of calls that are no work of an agent. */
const noAgent = '_system';
const noAgentLabel = 'no agent: titles of threads';

function labelOf({ name }: CostSum): string {
  return name === noAgent ? noAgentLabel : name;
}

function Figure({ title, sum, detail }: { title: string; sum: CostSum; detail: string }) {
  const { costMicrocents, unconfirmedMicrocents, calls, tokens, unpriced } = sum;
  return (
    <div class="card">
      <h3>{title}</h3>
      <p class="figure">
        <Money microcents={costMicrocents} />
      </p>
      <p>
        {formatCount(calls)} {calls === 1 ? 'model call' : 'model calls'}, {formatCount(tokens)} tokens
      </p>
      {unconfirmedMicrocents > 0 && (
        <p class="soft">
          and up to {formatMoney(unconfirmedMicrocents)} for calls that broke off before the provider said what they
          used
        </p>
      )}
      {unpriced > 0 && <p class="soft">{formatCount(unpriced)} calls of models without a price are not in it</p>}
      <p class="soft">{detail}</p>
    </div>
  );
}

function Sums({
  title,
  first,
  sums,
  hrefOf,
}: {
  title: string;
  first: string;
  sums: readonly CostSum[];
  hrefOf?: (name: string) => string | undefined;
}) {
  const most = Math.max(...sums.map(({ costMicrocents }) => costMicrocents));
  const link = (sum: CostSum) => {
    const href = hrefOf?.(sum.name);
    return href === undefined ? labelOf(sum) : <a href={href}>{labelOf(sum)}</a>;
  };
  return (
    <section class="card" aria-label={title}>
      <h3>{title}</h3>
      <SimpleTable
        label={title}
        rows={sums}
        keyOf={(sum) => sum.name}
        columns={[
          { label: first, cell: link, sort: labelOf },
          {
            label: 'Cost',
            align: 'end',
            cell: ({ costMicrocents }) => <Money microcents={costMicrocents} />,
            sort: ({ costMicrocents }) => costMicrocents,
          },
          { label: 'Share', cell: ({ costMicrocents }) => <Share used={costMicrocents} whole={most + 1} /> },
          {
            label: 'Calls',
            align: 'end',
            cell: ({ calls }) => <span class="number">{formatCount(calls)}</span>,
            sort: ({ calls }) => calls,
          },
        ]}
      />
    </section>
  );
}
