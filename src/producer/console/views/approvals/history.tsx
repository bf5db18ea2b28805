import type { AuditEntry } from '../../../../shared/contract/audit.ts';
import { useQuery } from '../../query.ts';
import { may } from '../../session.ts';
import { Empty, Loading, Problem } from '../../ui/states.tsx';
import { Table, type Column } from '../../ui/table.tsx';
import { Time } from '../../ui/time.tsx';

type Decision = Extract<AuditEntry, { kind: 'decision' }> & { readonly id: string };

const verdicts: Readonly<Record<Decision['verdict'], string>> = {
  granted: '✓ granted',
  denied: '✕ denied',
  answered: '✓ answered',
  approved: '✓ passed once',
  rejected: '✕ rejected',
};

const columns: readonly Column<Decision>[] = [
  { id: 'what', label: 'What', cell: ({ toolName, toolCallId }) => toolName ?? (toolCallId ? 'a question' : 'money') },
  {
    id: 'verdict',
    label: 'Decided',
    cell: ({ verdict, edited }) => (
      <span class={verdict === 'denied' || verdict === 'rejected' ? 'tone-bad' : 'tone-good'}>
        {verdicts[verdict]}
        {edited ? ', with other arguments' : ''}
      </span>
    ),
    width: 'minmax(9rem, 2fr)',
  },
  { id: 'by', label: 'By', cell: ({ by }) => by ?? <span class="soft">a process</span> },
  { id: 'at', label: 'At', cell: ({ at }) => <Time at={at} />, width: '8rem' },
  { id: 'agent', label: 'Agent', cell: ({ agent }) => agent ?? '—', wideOnly: true },
  {
    id: 'run',
    label: 'Run',
    cell: ({ runId }) => <a href={`/runs/${runId}`}>{runId}</a>,
    width: 'minmax(14rem, 1fr)',
    wideOnly: true,
  },
];

/** Who decided what, newest first, from the audit log. */
export function History() {
  const isAdmin = may('admin');
  const path = isAdmin ? '/v1/audit?kind=decision&order=newest&limit=200' : undefined;
  const { data, error, loading, reload } = useQuery<{ entries: readonly Decision[] }>(path, 10_000);
  if (!isAdmin)
    return (
      <Empty title="The log of all decisions needs a key with the scope “admin”.">
        <p>
          Who decided about the calls of one run is on the page of that run: <a href="/runs">go to the runs</a>.
        </p>
      </Empty>
    );
  if (loading) return <Loading what="Reading who decided" />;
  if (error && !data) return <Problem error={error} retry={reload} />;
  const entries = data?.entries ?? [];
  if (entries.length === 0)
    return (
      <Empty title="No person has decided anything in the last 30 days.">
        <p>Decisions about calls, questions and money will be listed here with who made them.</p>
      </Empty>
    );
  return (
    <div class="history">
      <Table
        label="Decisions"
        {...{ columns }}
        rows={entries}
        keyOf={({ id }) => id}
        hrefOf={({ runId }) => `/runs/${runId}`}
        foot={
          <p class="soft">
            The last 200. <code>millrace audit --kind decision</code> has all of the last 30 days.
          </p>
        }
      />
    </div>
  );
}
