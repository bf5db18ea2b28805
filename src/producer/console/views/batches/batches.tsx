import type { BatchView as Batch } from '../../../../shared/contract/batch.ts';
import { api, withQuery } from '../../api.ts';
import { usePaged, type PagedSource } from '../../paged.ts';
import { may } from '../../session.ts';
import { Money } from '../../ui/money.tsx';
import { Empty, Loading, Problem } from '../../ui/states.tsx';
import { Status } from '../../ui/status.tsx';
import { Table, type Column } from '../../ui/table.tsx';
import { Duration, Time } from '../../ui/time.tsx';
import { useUrlState } from '../../ui/url-state.ts';
import { NewBatch } from './new-batch.tsx';
import { Progress } from './progress.tsx';
import { batchTone, onlyWaits } from './words.ts';
import './batches.css';

interface Page {
  readonly data: readonly Batch[];
  readonly has_more: boolean;
  readonly last_id: string | null;
}

const everyMs = 3_000;
const pageSize = 50;

const batches: PagedSource<Batch> = {
  name: '',
  read: async (after, signal) => {
    const page = await api<Page>(withQuery('/v1/batches', { limit: pageSize, after }), { signal });
    return { items: page.data, cursor: page.has_more ? (page.last_id ?? undefined) : undefined };
  },
  keyOf: ({ id }) => id,
};

/** The batches of the tenant, newest first. */
export function BatchesView() {
  const [{ new: dialog, from }, setUrl] = useUrlState();
  const { items, error, loadMore, reload } = usePaged(batches, everyMs);
  return (
    <div class="list-view">
      <div class="view-head">
        <h1>Batches</h1>
        <p class="soft">Files whose every line is a run.</p>
        <button
          type="button"
          class="primary"
          disabled={!may('write')}
          title={may('write') ? undefined : 'Your key lacks the scope "write"'}
          onClick={() => setUrl({ new: '1', from: undefined }, true)}
        >
          Start a batch
        </button>
      </div>
      {error && <Problem error={error} retry={reload} />}
      {!items && !error && <Loading what="Reading the batches" />}
      {items?.length === 0 && (
        <Empty title="There is no batch yet.">
          <p>
            Start one here with a file of JSONL or CSV, or with <code>millrace batch FILE.jsonl --agent AGENT</code>.
          </p>
        </Empty>
      )}
      {items && items.length > 0 && (
        <Table
          label="Batches"
          {...{ columns }}
          rows={items}
          keyOf={({ id }) => id}
          hrefOf={({ id }) => `/batches/${id}`}
          onEnd={loadMore}
        />
      )}
      {dialog && <NewBatch from={from} onClose={() => setUrl({ new: undefined, from: undefined })} />}
    </div>
  );
}

const columns: readonly Column<Batch>[] = [
  { id: 'name', label: 'Batch', cell: ({ name }) => name, width: 'minmax(10rem, 2fr)' },
  {
    id: 'status',
    label: 'Status',
    cell: ({ status }) => <Status status={status} tone={batchTone[status]} />,
    width: '8rem',
  },
  { id: 'progress', label: 'Lines', cell: (batch) => <Progress batch={batch} />, width: 'minmax(9rem, 1fr)' },
  {
    id: 'failed',
    label: 'Failed',
    cell: ({ request_counts: { failed } }) => <span class={failed > 0 ? 'number tone-bad' : 'number'}>{failed}</span>,
    align: 'end',
    width: '4rem',
    wideOnly: true,
  },
  {
    id: 'cost',
    label: 'Cost',
    cell: ({ cost }) => <Money microcents={cost.microcents} />,
    align: 'end',
    width: '6rem',
  },
  {
    id: 'left',
    label: 'Left',
    cell: ({ eta, ...batch }) => onlyWaits(batch) ?? (eta ? <Duration ms={eta.seconds * 1_000} /> : '—'),
    align: 'end',
    width: '9rem',
    wideOnly: true,
  },
  { id: 'agent', label: 'Agent', cell: ({ agent }) => agent ?? '—', wideOnly: true },
  {
    id: 'created',
    label: 'Begun',
    cell: ({ created_at }) => <Time at={created_at * 1_000} />,
    width: '8rem',
    wideOnly: true,
  },
];
