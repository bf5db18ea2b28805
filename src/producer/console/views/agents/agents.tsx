import type { AgentView } from '../../../../shared/contract/agent/agent.ts';
import type { SeriesReport } from '../../../../shared/contract/report/series.ts';
import { useQuery } from '../../query.ts';
import { Table } from '../../ui/table.tsx';
import { formatCount, Money } from '../../ui/money.tsx';
import { ScriptedFleet } from '../../ui/scripted.tsx';
import { Empty, Loading, Problem } from '../../ui/states.tsx';
import { ErrorRate } from './agent-day.tsx';
import { dayPath, failedShare, rowsOf, type AgentRow } from './agent-rows.ts';

const everyMs = 10_000;

/** All agents with what they did in the last day. */
export function AgentsView() {
  const agents = useQuery<{ readonly agents: readonly AgentView[] }>('/v1/agents', everyMs);
  const day = useQuery<SeriesReport>(dayPath, everyMs);
  const rows = agents.data && rowsOf(agents.data.agents, day.data?.agents);
  return (
    <section class="list-view" aria-labelledby="agents-title">
      <div class="view-head">
        <h1 id="agents-title">Agents</h1>
        <p class="soft">Runs, errors and cost are those of the last 24 hours.</p>
      </div>
      <ScriptedFleet />
      {agents.error && !rows && <Problem error={agents.error} retry={agents.reload} />}
      {agents.loading && <Loading what="Asking for the agents" />}
      {rows?.length === 0 && (
        <Empty title="No worker has announced an agent yet.">
          <p>
            Start one with <code>millrace worker</code>; its agents come from the folder that{' '}
            <code>MILLRACE_AGENTS</code> names.
          </p>
        </Empty>
      )}
      {rows && rows.length > 0 && (
        <Table
          label="Agents"
          columns={columns}
          rows={rows}
          keyOf={({ id }) => id}
          hrefOf={({ id }) => `/agents/${encodeURIComponent(id)}`}
        />
      )}
    </section>
  );
}

const nameOf = ({ name, id }: AgentRow) => name ?? id;
const modelOf = ({ model }: AgentRow) => model;

const columns = [
  { id: 'id', label: 'Agent', width: 'minmax(7rem, 1fr)', cell: nameOf, sort: nameOf },
  { id: 'model', label: 'Model', width: 'minmax(7rem, 1fr)', cell: modelOf, sort: modelOf },
  {
    id: 'tools',
    label: 'Tools',
    width: 'minmax(8rem, 2fr)',
    wideOnly: true,
    cell: ({ tools }: AgentRow) => tools.join(', ') || <span class="soft">none</span>,
  },
  {
    id: 'runs',
    label: 'Runs',
    width: '5rem',
    align: 'end' as const,
    sort: ({ day }: AgentRow) => day?.ended ?? 0,
    cell: ({ day }: AgentRow) => <span class="number">{formatCount(day?.ended ?? 0)}</span>,
  },
  {
    id: 'errors',
    label: 'Failed',
    width: '6rem',
    align: 'end' as const,
    sort: ({ day }: AgentRow) => day && failedShare(day),
    cell: ({ day }: AgentRow) => <ErrorRate day={day} />,
  },
  {
    id: 'cost',
    label: 'Cost',
    width: '6rem',
    align: 'end' as const,
    sort: ({ day }: AgentRow) => day?.costMicrocents ?? 0,
    cell: ({ day }: AgentRow) => <Money microcents={day?.costMicrocents ?? 0} />,
  },
];
