import { useEffect, useState } from 'preact/hooks';
import { useLocation } from 'preact-iso/router';
import type { AgentView } from '../../../../shared/contract/agent/agent.ts';
import type { ThreadView as Thread } from '../../../../shared/contract/thread/thread-items.ts';
import { api, useQuery, withQuery } from '../../api.ts';
import { may } from '../../session.ts';
import { Dialog, useAct } from '../../ui/dialog.tsx';
import { Filters, SelectFilter } from '../../ui/filters.tsx';
import { Form, SelectField, TextArea, TextField } from '../../ui/form.tsx';
import { Empty, Loading, Problem } from '../../ui/states.tsx';
import { Status } from '../../ui/status.tsx';
import { Table, type Column } from '../../ui/table.tsx';
import { Time } from '../../ui/time.tsx';
import { useUrlState } from '../../ui/url-state.ts';
import { sendMessage } from './send.ts';

interface Page {
  readonly threads: readonly Thread[];
  readonly cursor?: string;
}

const everyMs = 4_000;

/** The threads of the tenant, last changed first. */
export function ThreadsView() {
  const [{ agent, new: dialog }, setUrl] = useUrlState();
  const { data, error, loading, reload } = useQuery<Page>(withQuery('/v1/threads', { agent, limit: 100 }), everyMs);
  const agents = useQuery<{ agents: readonly AgentView[] }>('/v1/agents').data?.agents ?? [];
  const older = useOlder(agent, data);
  const threads = [...(data?.threads ?? []), ...older.threads];
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
      {loading && <Loading what="Reading the threads" />}
      {data && threads.length === 0 && (
        <Empty title={agent ? `No thread of ${agent}.` : 'There is no thread yet.'}>
          <p>
            Begin one here, or give a run a thread: <code>millrace chat AGENT</code>, or{' '}
            <code>{'"thread": "customer-42"'}</code> in the request.
          </p>
        </Empty>
      )}
      {threads.length > 0 && (
        <Table
          label="Threads"
          {...{ columns }}
          rows={threads}
          keyOf={({ threadId }) => threadId}
          hrefOf={({ threadId }) => `/threads/${encodeURIComponent(threadId)}`}
          onEnd={older.load}
        />
      )}
      {dialog && <NewThread agents={agents} onClose={() => setUrl({ new: undefined })} />}
    </div>
  );
}

const columns: readonly Column<Thread>[] = [
  { id: 'title', label: 'Thread', cell: ({ title, threadId }) => title ?? threadId, width: 'minmax(12rem, 3fr)' },
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

/** Pages behind the first, which is read again and again: a thread that moved up is shown there. */
function useOlder(agent: string | undefined, first: Page | undefined) {
  const [state, setState] = useState<{ threads: readonly Thread[]; cursor?: string | undefined; begun: boolean }>({
    threads: [],
    begun: false,
  });
  useEffect(() => setState({ threads: [], begun: false }), [agent]);
  const load = () => {
    const cursor = state.begun ? state.cursor : first?.cursor;
    if (cursor === undefined) return;
    void api<Page>(withQuery('/v1/threads', { agent, limit: 100, cursor })).then((page) =>
      setState((now) => ({ threads: [...now.threads, ...page.threads], cursor: page.cursor, begun: true })),
    );
  };
  const above = new Set(first?.threads.map(({ threadId }) => threadId));
  return { threads: state.threads.filter(({ threadId }) => !above.has(threadId)), load };
}

function NewThread({ agents, onClose }: { agents: readonly AgentView[]; onClose: () => void }) {
  const { route } = useLocation();
  const [chosen, setChosen] = useState('');
  const [name, setName] = useState('');
  const [text, setText] = useState('');
  const agent = chosen || agents[0]?.id || '';
  const { busy, error, run } = useAct(async () => {
    const threadId = name.trim() || `console-${crypto.randomUUID().slice(0, 8)}`;
    await sendMessage({ agent, threadId, text, onBusy: 'queue', executionId: `console:${crypto.randomUUID()}` });
    route(`/threads/${encodeURIComponent(threadId)}`);
  });
  return (
    <Dialog title="New thread" onClose={onClose}>
      <Form onSubmit={() => run()}>
        <SelectField
          label="Agent"
          value={agent}
          onValue={setChosen}
          choices={agents.map(({ id }) => id)}
          hint={agents.length === 0 ? 'No worker has announced an agent yet.' : undefined}
        />
        <TextField
          label="Name"
          value={name}
          onValue={setName}
          hint="Letters, digits and . _ : - only. Empty: a name is made."
        />
        <TextArea label="Message" value={text} onValue={setText} required />
        {error && <Problem error={error} />}
        <div class="row end">
          <button type="submit" class="primary" disabled={busy || agent === '' || text.trim() === ''}>
            {busy ? 'Sending…' : 'Send'}
          </button>
        </div>
      </Form>
    </Dialog>
  );
}
