import type { FleetView, FleetWorker } from '../../../../shared/contract/report/fleet.ts';
import { formatCount } from '../../ui/money.tsx';
import { Share } from '../../ui/share.tsx';
import { SimpleTable, type SimpleColumn } from '../../ui/simple-table.tsx';
import { Empty } from '../../ui/states.tsx';
import { Status } from '../../ui/status.tsx';
import { formatDuration, Since } from '../../ui/time.tsx';
import { isLate } from './late.ts';

const shownRuns = 5;

/** Each live worker with the runs of this tenant that it works on. */
export function Workers({ workers }: { workers: readonly FleetWorker[] }) {
  return (
    <section class="card stack" aria-labelledby="workers-title">
      <h2 id="workers-title">Workers</h2>
      {workers.length === 0 ? (
        <Empty title="No worker is alive.">
          <p>
            Runs wait until one is: start it with <code>millrace worker</code>.
          </p>
        </Empty>
      ) : (
        <SimpleTable
          label="Workers"
          rows={workers}
          keyOf={({ name }) => name}
          columns={[
            {
              label: 'Worker',
              sort: ({ name }) => name,
              cell: (worker) => (
                <>
                  <span class="mono">{worker.name}</span>{' '}
                  {isLate(worker) && <Status status="late" tone="bad" label="no sign of life" />}
                </>
              ),
            },
            { label: 'Queues', cell: ({ queues }) => queues.join(', ') },
            { label: 'Busy', cell: (worker) => <Busy worker={worker} />, sort: ({ active }) => active },
            { label: 'Works on', cell: (worker) => <WorksOn worker={worker} /> },
            {
              label: 'Up for',
              // Who began first has been up longest.
              sort: ({ startedAt }) => (startedAt === undefined ? undefined : -Date.parse(startedAt)),
              cell: ({ startedAt }) => (startedAt ? <Since at={startedAt} /> : <span class="soft">not known</span>),
            },
            {
              label: 'Last heartbeat',
              sort: ({ heartbeatAgeMs }) => heartbeatAgeMs,
              cell: ({ heartbeatAgeMs }) => <span class="number">{formatDuration(heartbeatAgeMs)} ago</span>,
            },
            { label: 'Version', cell: ({ version }) => version, sort: ({ version }) => version },
          ]}
        />
      )}
    </section>
  );
}

function Busy({ worker: { active, concurrency } }: { worker: FleetWorker }) {
  return (
    <>
      <span class="number">
        {active} of {concurrency}
      </span>
      <Share used={active} whole={concurrency} />
    </>
  );
}

function WorksOn({ worker: { runs, active } }: { worker: FleetWorker }) {
  if (runs.length === 0) return <span class="soft">{active === 0 ? 'nothing' : 'runs of others'}</span>;
  const more = active - Math.min(runs.length, shownRuns);
  return (
    <>
      {runs.slice(0, shownRuns).map(({ runId, agent, since }) => (
        <div key={runId}>
          <a href={`/runs/${runId}`}>{agent}</a> <span class="soft">for</span> <Since at={since} />
        </div>
      ))}
      {more > 0 && <div class="soft">and {more} more</div>}
    </>
  );
}

/** What waits, and whether somebody works on it. */
export function Queues({ queues }: Pick<FleetView, 'queues'>) {
  const rows = Object.entries(queues).map(([name, state]) => ({ name, ...state }));
  return (
    <section class="card stack" aria-labelledby="queues-title">
      <h2 id="queues-title">Queues</h2>
      <SimpleTable
        label="Queues"
        rows={rows}
        keyOf={({ name }) => name}
        columns={[
          { label: 'Queue', cell: ({ name }) => name, sort: ({ name }) => name },
          countColumn('Waiting', ({ waiting }) => waiting),
          countColumn('Active', ({ active }) => active),
          countColumn('Delayed', ({ delayed }) => delayed),
          {
            label: 'Failed',
            align: 'end',
            sort: ({ failed }) => failed,
            cell: ({ failed }) =>
              failed === 0 ? (
                <Count value={0} />
              ) : (
                <a href="/runs?status=failed">
                  <Count value={failed} />
                </a>
              ),
          },
          {
            label: 'Workers',
            align: 'end',
            sort: ({ workers }) => workers,
            cell: ({ workers, waiting, delayed }) =>
              workers === 0 && waiting + delayed > 0 ? (
                <Status status="unserved" tone="bad" label="none" />
              ) : (
                <Count value={workers} />
              ),
          },
        ]}
      />
    </section>
  );
}

type QueueState = FleetView['queues'][string];

function countColumn(label: string, countOf: (queue: QueueState) => number): SimpleColumn<QueueState> {
  return { label, align: 'end', cell: (queue) => <Count value={countOf(queue)} />, sort: countOf };
}

function Count({ value }: { value: number }) {
  return <span class={value === 0 ? 'number soft' : 'number'}>{formatCount(value)}</span>;
}
