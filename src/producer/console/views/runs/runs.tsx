import { useLocation } from 'preact-iso/router';
import { useEffect, useMemo, useState } from 'preact/hooks';
import type { AgentView } from '../../../../shared/contract/agent/agent.ts';
import type { RunView } from '../../../../shared/contract/run.ts';
import { asApiError, api, withQuery } from '../../api.ts';
import { useQuery } from '../../query.ts';
import { may } from '../../session.ts';
import { useAct } from '../../ui/dialog.tsx';
import { Filters, FoldedFilters, SelectFilter, TextFilter, TimeFilter } from '../../ui/filters.tsx';
import { formatCount, Money } from '../../ui/money.tsx';
import { ScriptedFleet } from '../../ui/scripted.tsx';
import { Empty, Further, Loading, Problem } from '../../ui/states.tsx';
import { Status } from '../../ui/status.tsx';
import { Table, type Column } from '../../ui/table.tsx';
import { Duration, Since, Time } from '../../ui/time.tsx';
import { useUrlState } from '../../ui/url-state.ts';
import { errorsWithAdvice } from '../run/record/failure.ts';
import { Bulk } from './bulk.tsx';
import { askedRuns, filterNames, windows } from './filter.ts';
import { useRunList, type RunList } from './run-list.ts';
import { TryIt } from './try-it.tsx';
import './runs.css';

const statuses = ['queued', 'running', 'suspended', 'completed', 'failed', 'cancelled'];
const countsMs = 10_000;

interface Counts {
  readonly total: number;
  readonly byStatus: Readonly<Partial<Record<string, number>>>;
  readonly complete: boolean;
}

/** The runs of the tenant, live: found by filters that are in the URL, and by how their id begins. */
export function RunsView() {
  const [values] = useUrlState();
  const key = JSON.stringify(filterNames.map((name) => values[name]));
  const { filter, query, problems } = useMemo(() => askedRuns(values, Date.now()), [key]);
  const list = useRunList(query);
  const counted = useQuery<{ counts: Counts }>(withQuery('/v1/runs', { ...query, limit: 1, counts: 'true' }), countsMs);
  const [ids, select] = useState<ReadonlySet<string>>(new Set());
  const selected = useMemo(() => list.runs.filter(({ runId }) => ids.has(runId)), [list.runs, ids]);
  const counts = counted.data?.counts;
  return (
    <section class="list-view" aria-labelledby="runs-title">
      <div class="view-head between">
        <div class="view-head">
          <h1 id="runs-title">Runs</h1>
          <Summary counts={counts} />
          {may('write') && (
            <a class="button" href="/runs/new">
              New run
            </a>
          )}
        </div>
        <div class="row">
          <Bulk
            selected={selected}
            filter={Object.keys(problems).length === 0 ? filter : {}}
            counts={counts?.byStatus ?? {}}
            onDone={() => {
              select(new Set());
              void list.reload();
              void counted.reload();
            }}
          />
        </div>
      </div>
      <ScriptedFleet />
      <RunFilters problems={problems} />
      {list.error && <Problem error={list.error} retry={list.reload} />}
      {list.loading && <Loading what="Loading the runs" />}
      {!list.loading && list.runs.length === 0 && !list.error && <NoneFound list={list} filter={filter} />}
      {list.runs.length > 0 && (
        <Table
          label="Runs"
          columns={columns}
          rows={list.runs}
          keyOf={keyOf}
          hrefOf={hrefOf}
          selection={{ ids, change: select }}
          onEnd={list.loadMore}
          foot={
            list.more ? (
              <>
                Older runs are loaded as you scroll.{' '}
                <button type="button" class="quiet" onClick={list.loadMore}>
                  Load more
                </button>
              </>
            ) : list.runs.length === 1 ? (
              'There are no more.'
            ) : (
              `All ${formatCount(list.runs.length)} are here.`
            )
          }
        />
      )}
    </section>
  );
}

const keyOf = ({ runId }: RunView) => runId;
const hrefOf = ({ runId }: RunView) => `/runs/${runId}`;

const columns: readonly Column<RunView>[] = [
  {
    id: 'run',
    label: 'Run',
    // Its beginning: the whole id has its place on the page of the run.
    width: '9rem',
    narrowWidth: '6rem',
    cell: ({ runId }) => <code title={runId}>{runId}</code>,
  },
  { id: 'status', label: 'Status', width: 'minmax(7rem, 8rem)', cell: (run) => <RunState run={run} /> },
  { id: 'agent', label: 'Agent', width: 'minmax(6rem, 1fr)', cell: ({ agent }) => agent },
  {
    id: 'asked',
    label: 'Asked',
    width: 'minmax(8rem, 2fr)',
    wideOnly: true,
    cell: ({ inputPreview }) => <span title={inputPreview}>{inputPreview}</span>,
  },
  { id: 'note', label: 'Note', width: 'minmax(7rem, 1fr)', wideOnly: true, cell: (run) => <Note run={run} /> },
  { id: 'started', label: 'Created', width: 'minmax(6rem, 8rem)', cell: ({ createdAt }) => <Time at={createdAt} /> },
  { id: 'took', label: 'Took', width: '5.5rem', align: 'end', cell: (run) => <Took run={run} /> },
  {
    id: 'cost',
    label: 'Cost',
    width: '6rem',
    align: 'end',
    cell: ({ costMicrocents }) => <Money microcents={costMicrocents} />,
  },
  {
    id: 'tokens',
    label: 'Tokens',
    width: '5rem',
    align: 'end',
    wideOnly: true,
    cell: ({ usage }) => <span class="number">{usage ? formatCount(usage.total) : '—'}</span>,
  },
];

function RunState({ run }: { run: RunView }) {
  return <Status status={run.status} {...(run.cancelling && { label: 'cancelling' })} />;
}

/** Why it failed, what it waits for, or where it belongs. */
function Note({ run }: { run: RunView }) {
  if (run.error) return <span title={run.error.message}>{run.error.code}</span>;
  if (run.status === 'suspended') {
    const kinds = [...new Set(run.pending.map(({ kind }) => kind.replaceAll('_', ' ')))];
    return <span>waits: {kinds.join(', ')}</span>;
  }
  if (run.thread !== undefined) return <span class="soft">thread {run.thread}</span>;
  return <span class="soft">{run.batch !== undefined && `batch ${run.batch}`}</span>;
}

function Took({ run }: { run: RunView }) {
  if (run.endedAt !== undefined) return <Duration ms={run.durationMs} />;
  return run.startedAt === undefined ? <span class="soft">—</span> : <Since at={run.startedAt} />;
}

function Summary({ counts }: { counts: Counts | undefined }) {
  if (!counts) return null;
  const some = statuses.filter((status) => (counts.byStatus[status] ?? 0) > 0);
  return (
    <p class="soft number">
      {counts.complete ? '' : 'at least '}
      {formatCount(counts.total)} {some.length > 0 && '· '}
      {some.map((status) => `${formatCount(counts.byStatus[status] ?? 0)} ${status}`).join(' · ')}
    </p>
  );
}

function RunFilters({ problems }: { problems: Readonly<Record<string, string>> }) {
  const agents = useQuery<{ agents: readonly AgentView[] }>('/v1/agents', 60_000);
  const [values] = useUrlState();
  const used = ['batch', 'thread', 'parent', 'from', 'to', 'metadata', 'minCost'].some((name) => values[name]);
  // What is open stays so when its filters are cleared: nothing moves under the pointer.
  const [isOpen, setOpen] = useState(used);
  useEffect(() => {
    if (used) setOpen(true);
  }, [used]);
  return (
    <div class="run-filters">
      <FindRun />
      <FoldedFilters names={filterNames} isOpenAtFirst={Object.keys(problems).length > 0}>
        <Filters names={filterNames}>
          <SelectFilter name="status" label="Status" choices={statuses} />
          <SelectFilter
            name="agent"
            label="Agent"
            choices={(agents.data?.agents ?? []).map(({ id, name }) => ({ value: id, label: name ?? id }))}
          />
          <SelectFilter name="since" label="Created" choices={windows} />
          <SelectFilter name="errorCode" label="Error" choices={errorsWithAdvice} />
        </Filters>
        <details open={isOpen} onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
          <summary>More filters</summary>
          <div class="filters">
            <TextFilter name="batch" label="Batch" />
            <TextFilter name="thread" label="Thread" />
            <TextFilter name="parent" label="Children of" placeholder="run id" />
            <TextFilter name="metadata" label="Metadata" placeholder="user=u1, plan=pro" error={problems['metadata']} />
            <TextFilter name="minCost" label="Cost from, in dollars" placeholder="0.05" error={problems['minCost']} />
            <TimeFilter name="from" label="Created from" />
            <TimeFilter name="to" label="Created before" />
          </div>
        </details>
      </FoldedFilters>
    </div>
  );
}

interface FoundRun {
  readonly runId: string;
  readonly status: string;
  readonly agent: string;
  readonly createdAt: string;
}

/** What was found for the beginning of an id. */
interface Found {
  readonly id: string;
  readonly runs: readonly FoundRun[];
}

/** Opens the run whose id begins like this; where several do, they are offered. What it says lies over the list, which stays where it is. */
function FindRun() {
  const { route } = useLocation();
  const [{ id: typed = '' }] = useUrlState();
  const [found, setFound] = useState<Found>();
  const { error, run: find } = useAct(async () => {
    setFound(undefined);
    // What was typed last is in the URL already, and not yet in what this was drawn from.
    const id = new URLSearchParams(location.search).get('id') ?? '';
    try {
      const { runId } = await api<{ runId: string }>(`/v1/run-ids/${encodeURIComponent(id)}`);
      route(`/runs/${runId}`);
    } catch (thrown) {
      const { code, details } = asApiError(thrown);
      const several = Array.isArray(details) && details[0]?.runId !== undefined ? details : undefined;
      if (!several && code !== 'run_not_found') throw thrown;
      setFound({ id, runs: several ?? [] });
    }
  });
  return (
    <form
      class="find-run"
      onSubmit={(event) => {
        event.preventDefault();
        void find();
      }}
    >
      <div class="row">
        <TextFilter
          name="id"
          label="Find a run by how its id begins"
          type="search"
          placeholder="01K9… (4 or more)"
          search
        />
        <button>Open</button>
      </div>
      {error && (
        <div class="found">
          <Problem error={error} />
        </div>
      )}
      {found?.id === typed && <FoundRuns {...found} />}
    </form>
  );
}

function FoundRuns({ id, runs }: Found) {
  if (runs.length === 0)
    return (
      <p class="found problem" role="alert">
        No id begins with {id}.
      </p>
    );
  return (
    <ul class="found card" aria-label="Runs whose ids begin like this">
      {runs.map(({ runId, status, agent, createdAt }) => (
        <li key={runId}>
          <a href={`/runs/${runId}`}>
            <code>{runId}</code>
          </a>{' '}
          <Status status={status} /> {agent} <Time at={createdAt} />
        </li>
      ))}
    </ul>
  );
}

function NoneFound({ list, filter }: { list: RunList; filter: Readonly<Record<string, unknown>> }) {
  if (list.more) return <Further what="runs" loadMore={list.loadMore} />;
  return <NoRuns filtered={Object.keys(filter).length > 0} />;
}

function NoRuns({ filtered }: { filtered: boolean }) {
  const agents = useQuery<{ agents: readonly AgentView[] }>('/v1/agents', 5_000).data?.agents ?? [];
  if (filtered)
    return (
      <Empty title="No run fits these filters.">
        <p>
          <a href="/runs">Show all runs</a>
        </p>
      </Empty>
    );
  return (
    <Empty title="There are no runs yet.">
      {agents.length === 0 ? (
        <p>
          There are no agents either: <code>millrace init</code> makes one, and a worker announces it.
        </p>
      ) : (
        <p>
          Start one here, or with <code>millrace run AGENT &quot;…&quot;</code>.
        </p>
      )}
      <TryIt agents={agents} />
    </Empty>
  );
}
