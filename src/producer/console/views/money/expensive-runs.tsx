import { useState } from 'preact/hooks';
import type { RunView } from '../../../../shared/contract/run.ts';
import { api, withQuery } from '../../api.ts';
import { countOf } from '../../ui/count-of.ts';
import { useAct } from '../../ui/dialog.tsx';
import { Money } from '../../ui/money.tsx';
import { SimpleTable } from '../../ui/simple-table.tsx';
import { Problem } from '../../ui/states.tsx';
import { Status } from '../../ui/status.tsx';
import { Time } from '../../ui/time.tsx';
import { mostExpensive } from './cost-sums.ts';

const pageSize = 100;
const mostPages = 20;
const shown = 10;

interface Found {
  readonly runs: readonly RunView[];
  readonly looked: number;
  readonly isAll: boolean;
}

/** The runs of some days that cost most. They are looked for when it is asked for: runs are listed by time. */
export function ExpensiveRuns({ from, to }: { from: string; to: string }) {
  const [found, setFound] = useState<Found>();
  const { busy, error, run } = useAct(async () => setFound(await look(from, to)));
  return (
    <section class="card stack-small" aria-label="Most expensive runs">
      <div class="row between">
        <h3>Most expensive runs</h3>
        <button type="button" disabled={busy} onClick={() => void run()}>
          {busy ? 'Looking…' : found ? 'Look again' : 'Look for them'}
        </button>
      </div>
      {error && <Problem error={error} />}
      {found && (
        <>
          <SimpleTable
            label="Most expensive runs"
            rows={found.runs}
            keyOf={({ runId }) => runId}
            columns={[
              { label: 'Run', cell: ({ runId }) => <a href={`/runs/${runId}`}>{runId.slice(0, 13)}</a> },
              { label: 'Cost', align: 'end', cell: (each) => <Money microcents={each.costMicrocents} /> },
              { label: 'Agent', cell: ({ agent }) => agent },
              { label: 'Status', cell: ({ status }) => <Status status={status} /> },
              { label: 'Created', cell: ({ createdAt }) => <Time at={createdAt} /> },
            ]}
          />
          <p class="soft">
            Of {found.isAll ? 'all that cost anything and are kept' : 'the newest that cost anything'}:{' '}
            {countOf(found.looked, 'run')} of these days.
          </p>
        </>
      )}
    </section>
  );
}

async function look(from: string, to: string): Promise<Found> {
  const days = { after: `${from}T00:00:00.000Z`, before: `${to}T23:59:59.999Z` };
  const runs: RunView[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < mostPages; page++) {
    const path = withQuery('/v1/runs', { ...days, minCostMicrocents: 1, limit: pageSize, cursor });
    const answer = await api<{ runs: readonly RunView[]; cursor?: string }>(path);
    runs.push(...answer.runs);
    cursor = answer.cursor;
    if (cursor === undefined) break;
  }
  return { runs: mostExpensive(runs, shown), looked: runs.length, isAll: cursor === undefined };
}
