import type { RunView } from '../../../../shared/contract/run.ts';
import { withQuery } from '../../api.ts';
import { useQuery } from '../../query.ts';
import { Money } from '../../ui/money.tsx';
import { SimpleTable } from '../../ui/simple-table.tsx';
import { Empty, Loading, Problem } from '../../ui/states.tsx';
import { Status } from '../../ui/status.tsx';
import { Duration, Time } from '../../ui/time.tsx';

const everyMs = 3_000;
const shown = 25;

/** The latest runs of an agent. */
export function AgentRuns({ id }: { id: string }) {
  const path = withQuery('/v1/runs', { agent: id, limit: shown });
  const { data, error, reload } = useQuery<{ readonly runs: readonly RunView[] }>(path, everyMs);
  if (!data) return error ? <Problem error={error} retry={reload} /> : <Loading what="Asking for its runs" />;
  if (data.runs.length === 0)
    return (
      <Empty title="It has not run yet.">
        <p>Try it with the button above, or start a run over HTTP or with the command line.</p>
      </Empty>
    );
  return (
    <>
      <SimpleTable
        label="Recent runs"
        rows={data.runs}
        keyOf={({ runId }) => runId}
        columns={[
          { label: 'Run', cell: ({ runId }) => <a href={`/runs/${runId}`}>{runId.slice(0, 13)}</a> },
          { label: 'Status', cell: (run) => <RunStatus run={run} /> },
          { label: 'Created', cell: ({ createdAt }) => <Time at={createdAt} /> },
          { label: 'Took', align: 'end', cell: (run) => <Duration ms={tookMs(run)} /> },
          { label: 'Cost', align: 'end', cell: ({ costMicrocents }) => <Money microcents={costMicrocents} /> },
        ]}
      />
      <p>
        <a href={withQuery('/runs', { agent: id })}>All its runs</a>
      </p>
    </>
  );
}

function RunStatus({ run: { status, error } }: { run: RunView }) {
  return (
    <>
      <Status status={status} /> {error && <code>{error.code}</code>}
    </>
  );
}

function tookMs({ startedAt, endedAt }: RunView): number | undefined {
  return startedAt === undefined || endedAt === undefined ? undefined : Date.parse(endedAt) - Date.parse(startedAt);
}
