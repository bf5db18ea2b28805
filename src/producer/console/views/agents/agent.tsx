import { useState } from 'preact/hooks';
import type { AgentDetail } from '../../../../shared/contract/agent/agent-detail.ts';
import type { SeriesReport } from '../../../../shared/contract/report/series.ts';
import { useQuery } from '../../query.ts';
import { may } from '../../session.ts';
import { Json } from '../../ui/json.tsx';
import { formatCount, Money } from '../../ui/money.tsx';
import { ScriptedFleet } from '../../ui/scripted.tsx';
import { Loading, Problem } from '../../ui/states.tsx';
import { Tabs } from '../../ui/tabs.tsx';
import { Time } from '../../ui/time.tsx';
import { ErrorRate } from './agent-day.tsx';
import { dayPath } from './agent-rows.ts';
import { AgentRuns } from './agent-runs.tsx';
import { Definition } from './definition.tsx';
import { Tools } from './tools.tsx';
import { Unknown } from './unknown.tsx';
import { TryIt } from './try-it.tsx';

const everyMs = 15_000;

/** One agent: what it is, what it may do, what it did, and a way to try it. */
export function AgentView({ id = '' }: { id?: string }) {
  const { data, error, reload } = useQuery<AgentDetail>(`/v1/agents/${encodeURIComponent(id)}`, everyMs);
  if (data) return <Agent agent={data} />;
  if (!error) return <Loading what="Asking for the agent" />;
  return (
    <Problem error={error} retry={reload}>
      <a href="/agents">All agents</a>
    </Problem>
  );
}

function Agent({ agent }: { agent: AgentDetail }) {
  const [trying, setTrying] = useState(false);
  const { id, name, description, version, toolDetails, definition, tools } = agent;
  return (
    <article class="stack" aria-labelledby="agent-title">
      <header class="row between">
        <div>
          <h1 id="agent-title">{name ?? id}</h1>
          <p class="soft">
            <span class="mono">{id}</span>
            {version && ` · version ${version}`}
            {description && ` · ${description}`}
          </p>
        </div>
        {may('write') && (
          <button type="button" class="primary" onClick={() => setTrying(true)}>
            Try it
          </button>
        )}
      </header>
      <ScriptedFleet />
      <Day agent={agent} />
      <Tabs
        label="About the agent"
        tabs={[
          { id: 'runs', label: 'Recent runs', content: () => <AgentRuns id={id} /> },
          { id: 'definition', label: 'Definition', content: () => <Definition agent={agent} /> },
          {
            id: 'tools',
            label: `Tools (${toolDetails?.length ?? tools.length})`,
            content: () => <Tools agent={agent} />,
          },
          { id: 'json', label: 'JSON', content: () => (definition ? <Json value={definition} /> : <Unknown />) },
        ]}
      />
      {trying && <TryIt id={id} onClose={() => setTrying(false)} />}
    </article>
  );
}

function Day({ agent: { id, model, seenAt } }: { agent: AgentDetail }) {
  const { data } = useQuery<SeriesReport>(dayPath, everyMs);
  const day = data?.agents.find(({ agent }) => agent === id);
  return (
    <dl class="facts card">
      <dt>Model</dt>
      <dd>{model}</dd>
      <dt>Last 24 hours</dt>
      <dd>
        {!day || day.ended === 0 ? (
          'No run has ended.'
        ) : (
          <>
            {formatCount(day.ended)} {day.ended === 1 ? 'run' : 'runs'} ended, <ErrorRate day={day} /> failed,{' '}
            <Money microcents={day.costMicrocents} />
          </>
        )}
      </dd>
      <dt>Last seen on a worker</dt>
      <dd>
        <Time at={seenAt} />
      </dd>
    </dl>
  );
}
