import type { AgentView } from '../../../../shared/contract/agent/agent.ts';
import type { ThreadView as Thread } from '../../../../shared/contract/thread/thread-items.ts';
import { api, withQuery } from '../../api.ts';
import { usePaged, type PagedSource } from '../../paged.ts';
import { useQuery } from '../../query.ts';
import { may } from '../../session.ts';
import { Filters, SelectFilter } from '../../ui/filters.tsx';
import { Empty, Further, Loading, Problem } from '../../ui/states.tsx';
import { Status } from '../../ui/status.tsx';
import { Table, type Column } from '../../ui/table.tsx';
import { Time } from '../../ui/time.tsx';
import { useUrlState } from '../../ui/url-state.ts';
import { NewThread } from './new-thread.tsx';

const everyMs = 4_000;
const pageSize = 100;

/** The threads of the tenant, last changed first. */
export function ThreadsView() {
  const [{ agent, new: dialog }, setUrl] = useUrlState();
  const { items, error, more, loadMore, reload } = usePaged(threadsOf(agent), everyMs);
  const known = useQuery<{ agents: readonly AgentView[] }>('/v1/agents');
  const agents = known.data?.agents ?? [];
  return (
    <div class="list-view">
      <div class="view-head">
        <h1>Threads</h1>
        <p class="soft">Conversations: what was said, and which run answers now.</p>
        <button
          type="button"
          class="primary"
          disabled={!may('write')}
          title={may('write') ? undefined : 'Your key lacks the scope "write"'}
          onClick={() => setUrl({ new: '1' }, true)}
        >
          New thread
        </button>
      </div>
      <Filters names={['agent']}>
        <SelectFilter name="agent" label="Agent" choices={agents.map(({ id }) => id)} />
      </Filters>
      {error && <Problem error={error} retry={reload} />}
      {!items && !error && <Loading what="Reading the threads" />}
      {items?.length === 0 && more && <Further what="threads" {...{ loadMore }} />}
      {items?.length === 0 && !more && (
        <Empty title={agent ? `No thread of ${agent}.` : 'There is no thread yet.'}>
          <p>
            Begin one here, or give a run a thread: <code>millrace chat AGENT</code>, or{' '}
            <code>{'"thread": "customer-42"'}</code> in the request.
          </p>
        </Empty>
      )}
      {items && items.length > 0 && (
        <Table
          label="Threads"
          {...{ columns }}
          rows={items}
          keyOf={({ threadId }) => threadId}
          hrefOf={({ threadId }) => `/threads/${encodeURIComponent(threadId)}`}
          onEnd={loadMore}
        />
      )}
      {dialog && !known.loading && <NewThread agents={agents} onClose={() => setUrl({ new: undefined })} />}
    </div>
  );
}

function threadsOf(agent: string | undefined): PagedSource<Thread> {
  return {
    name: agent ?? '',
    read: async (cursor, signal) => {
      const path = withQuery('/v1/threads', { agent, limit: pageSize, cursor });
      const page = await api<{ threads: readonly Thread[]; cursor?: string }>(path, { signal });
      return { items: page.threads, cursor: page.cursor };
    },
    keyOf: ({ threadId }) => threadId,
  };
}

const columns: readonly Column<Thread>[] = [
  {
    id: 'name',
    label: 'Thread',
    cell: ({ title, threadId }) => (
      <>
        {title ?? threadId} {title && <span class="soft mono">{threadId}</span>}
      </>
    ),
    width: 'minmax(12rem, 3fr)',
  },
  { id: 'agent', label: 'Agent', cell: ({ agentId }) => agentId },
  { id: 'state', label: 'State', cell: (thread) => <ThreadState thread={thread} />, width: 'minmax(8rem, 1fr)' },
  {
    id: 'entries',
    label: 'Entries',
    cell: ({ lastSeq }) => <span class="number">{lastSeq}</span>,
    align: 'end',
    width: '5rem',
    wideOnly: true,
  },
  { id: 'updated', label: 'Changed', cell: ({ updatedAt }) => <Time at={updatedAt} />, width: '8rem' },
  { id: 'created', label: 'Begun', cell: ({ createdAt }) => <Time at={createdAt} />, width: '8rem', wideOnly: true },
];

export function ThreadState({ thread: { lockOwner, suspendedBy, waiting } }: { thread: Thread }) {
  const queue = waiting > 0 ? `, ${waiting} in line` : '';
  if (suspendedBy) return <Status status="suspended" label={`waits${queue}`} />;
  if (lockOwner) return <Status status="running" label={`answers${queue}`} />;
  return <Status status="idle" tone="quiet" label={`idle${queue}`} />;
}
