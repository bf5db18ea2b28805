import type { AuditEntry } from '../../../../shared/contract/audit.ts';
import { api, blobAt, withQuery } from '../../api.ts';
import { usePaged, type PagedSource } from '../../paged.ts';
import { may } from '../../session.ts';
import { formatMoney } from '../../ui/money.tsx';
import { useAct } from '../../ui/dialog.tsx';
import { Filters, SelectFilter } from '../../ui/filters.tsx';
import { saveFile } from '../../ui/save.ts';
import { Empty, Further, Loading, Problem } from '../../ui/states.tsx';
import { Status } from '../../ui/status.tsx';
import { Table } from '../../ui/table.tsx';
import { Time } from '../../ui/time.tsx';
import { useUrlState } from '../../ui/url-state.ts';
import { wordsOf } from './entry-words.ts';

type Shown = AuditEntry & { readonly id: string };

interface Page {
  readonly entries: readonly Shown[];
  readonly next?: string;
}

const everyMs = 5_000;
const pageSize = 200;
const kinds = ['decision', 'budget', 'denial', 'flow', 'leak', 'erasure', 'keys', 'pause'];
const sinces = [
  { value: '1h', label: 'the last hour' },
  { value: '24h', label: 'the last day' },
  { value: '7d', label: 'the last week' },
];

/** Who did what to this tenant's runs and money, and what rules stopped. */
export function AuditView() {
  return (
    <section class="list-view" aria-labelledby="audit-title">
      <div class="view-head">
        <h1 id="audit-title">Audit</h1>
        <p class="soft">
          Decisions, budgets, denials, erasures, keys and pauses of the last 30 days. Nothing removes an entry before.
        </p>
      </div>
      {may('admin') ? <Log /> : <Empty title="Only a key with the scope admin reads the audit log." />}
    </section>
  );
}

function Log() {
  const [{ kind, since }] = useUrlState();
  const { items, error, more, loadMore, reload } = usePaged(entriesOf(kind, since), everyMs);
  return (
    <>
      <Filters names={['kind', 'since']}>
        <SelectFilter name="kind" label="Kind" choices={kinds} />
        <SelectFilter name="since" label="Since" choices={sinces} />
        <Export kind={kind} since={since} />
      </Filters>
      {error && <Problem error={error} retry={reload} />}
      {!items && !error && <Loading what="Reading the audit log" />}
      {items?.length === 0 && more && <Further what="entries" {...{ loadMore }} />}
      {items?.length === 0 && !more && (
        <Empty title="Nothing of this kind is in the log.">
          <p>It gets an entry when a person decides, a budget changes, a rule denies, or data is erased.</p>
        </Empty>
      )}
      {items && items.length > 0 && (
        <Table label="Audit log" columns={columns} rows={items} keyOf={({ id }) => id} onEnd={loadMore} />
      )}
    </>
  );
}

function entriesOf(kind: string | undefined, since: string | undefined): PagedSource<Shown> {
  const path = withQuery('/v1/audit', { kind, since, order: 'newest', limit: pageSize });
  return {
    name: path,
    read: async (after, signal) => {
      const { entries, next } = await api<Page>(withQuery(path, { after }), { signal });
      return { items: entries, cursor: next };
    },
    keyOf: ({ id }) => id,
  };
}

/** All entries that fit, one JSON document a line, as a file. */
function Export({ kind, since }: { kind: string | undefined; since: string | undefined }) {
  const { busy, error, run } = useAct(async () => {
    const path = withQuery('/v1/audit', { kind, since });
    saveFile('audit.jsonl', await blobAt(path, { headers: { accept: 'application/x-ndjson' } }));
  });
  return (
    <>
      <button type="button" disabled={busy} onClick={() => void run()}>
        {busy ? 'Exporting…' : 'Export as JSONL'}
      </button>
      {error && <Problem error={error} />}
    </>
  );
}

const tones: Readonly<Record<string, 'bad' | 'wait' | 'quiet'>> = {
  denial: 'bad',
  flow: 'wait',
  leak: 'wait',
  erasure: 'wait',
};

/** Where no keys are set, the producer knows only that it was asked from its own machine. */
function By({ entry }: { entry: Shown }) {
  const by = 'by' in entry ? entry.by : undefined;
  const isNameless = by === 'local' || (by === undefined && entry.kind === 'decision');
  if (isNameless) return <span class="soft">without a name</span>;
  return <>{by ?? <span class="soft">–</span>}</>;
}

const columns = [
  { id: 'at', label: 'When', width: '8rem', cell: ({ at }: Shown) => <Time at={at} /> },
  {
    id: 'kind',
    label: 'Kind',
    width: '7rem',
    cell: ({ kind }: Shown) => <Status status={kind} tone={tones[kind] ?? 'quiet'} label={kind} />,
  },
  { id: 'what', label: 'What', width: 'minmax(10rem, 3fr)', cell: (entry: Shown) => wordsOf(entry, formatMoney) },
  {
    id: 'by',
    label: 'By',
    width: 'minmax(6rem, 1fr)',
    wideOnly: true,
    cell: (entry: Shown) => <By entry={entry} />,
  },
  {
    id: 'run',
    label: 'Run',
    width: '9rem',
    wideOnly: true,
    cell: (entry: Shown) =>
      'runId' in entry ? <a href={`/runs/${entry.runId}`}>{entry.runId.slice(0, 13)}</a> : <span class="soft">–</span>,
  },
];
