import { useEffect, useState } from 'preact/hooks';
import { useLocation } from 'preact-iso/router';
import type { RunView } from '../../../../shared/contract/run.ts';
import type { ThreadView as Thread } from '../../../../shared/contract/thread/thread-items.ts';
import { api, withQuery } from '../../api.ts';
import { useQuery, type Query } from '../../query.ts';
import { may } from '../../session.ts';
import { Confirm, Dialog, useAct } from '../../ui/dialog.tsx';
import { Form, TextField } from '../../ui/form.tsx';
import { Money } from '../../ui/money.tsx';
import { notify } from '../../ui/notice.tsx';
import { ScriptedFleet } from '../../ui/scripted.tsx';
import { Empty, Loading, Problem } from '../../ui/states.tsx';
import { Status } from '../../ui/status.tsx';
import { Table, type Column } from '../../ui/table.tsx';
import { Tabs } from '../../ui/tabs.tsx';
import { Duration, Time } from '../../ui/time.tsx';
import { EraseThread } from '../erase/erase-thread.tsx';
import { Conversation } from './conversation.tsx';
import { ThreadState } from './threads.tsx';
import './threads.css';

const everyMs = 2_000;

/** One thread: what was said, going on, and its runs. */
export function ThreadView({ id = '' }: { id?: string }) {
  const thread = useQuery<Thread>(`/v1/threads/${encodeURIComponent(id)}`, everyMs);
  if (thread.loading) return <Loading what="Reading the thread" />;
  if (!thread.data) return thread.error ? <Missing {...{ id, thread }} /> : null;
  return <Shown thread={thread.data} query={thread} />;
}

function Missing({ id, thread }: { id: string; thread: Query<Thread> }) {
  const runs = useQuery<{ runs: readonly RunView[] }>(withQuery('/v1/runs', { thread: id, limit: 1 }), everyMs);
  const [first] = runs.data?.runs ?? [];
  useEffect(() => {
    if (first) void thread.reload();
  }, [runs.data]);
  if (thread.error?.code === 'not_found' && first)
    return (
      <Empty title="The first message is on its way.">
        <p>
          Its run is {first.status}: <a href={`/runs/${first.runId}`}>{first.runId}</a>. The thread is there once a
          worker has begun it.
        </p>
      </Empty>
    );
  if (!thread.error) return null;
  return (
    <Problem error={thread.error} retry={thread.reload}>
      <a href="/threads">All threads</a>
    </Problem>
  );
}

function Shown({ thread, query }: { thread: Thread; query: Query<Thread> }) {
  const { threadId, title, agentId, createdAt, updatedAt, taskId, session, suspendedBy } = thread;
  const [dialog, setDialog] = useState<'delete' | 'rename' | 'erase'>();
  return (
    <div class="thread">
      <div class="view-head">
        <h1>{title ?? threadId}</h1>
        {title && <p class="soft mono">{threadId}</p>}
        <ThreadState thread={thread} />
        {may('write') && (
          <span class="row">
            <button type="button" class="quiet" onClick={() => setDialog('rename')}>
              Rename
            </button>
            <button type="button" class="quiet" onClick={() => setDialog('delete')}>
              Delete
            </button>
            {may('admin') && (
              <button type="button" class="quiet tone-bad" onClick={() => setDialog('erase')}>
                Erase
              </button>
            )}
          </span>
        )}
      </div>
      <ScriptedFleet />
      {query.error && <Problem error={query.error} retry={query.reload} />}
      {suspendedBy && (
        <p class="away">
          The run waits for something outside: <a href={`/runs/${suspendedBy}`}>look at the run</a>, or at{' '}
          <a href="/approvals">what waits for people</a>.
        </p>
      )}
      <Tabs
        label="Thread"
        tabs={[
          {
            id: 'conversation',
            label: 'Conversation',
            content: () => <Conversation thread={thread} onSent={query.reload} />,
          },
          { id: 'runs', label: 'Runs', content: () => <Runs threadId={threadId} /> },
          {
            id: 'about',
            label: 'About',
            content: () => (
              <dl class="facts">
                <dt>Id</dt>
                <dd>{threadId}</dd>
                <dt>Agent</dt>
                <dd>
                  <a href={`/agents/${encodeURIComponent(agentId)}`}>{agentId}</a>
                </dd>
                <dt>Begun</dt>
                <dd>
                  <Time at={createdAt} />
                </dd>
                <dt>Changed</dt>
                <dd>
                  <Time at={updatedAt} />
                </dd>
                {taskId && (
                  <>
                    <dt>Task</dt>
                    <dd>{taskId}</dd>
                  </>
                )}
                {session && (
                  <>
                    <dt>Kept by the provider</dt>
                    <dd>
                      {session.provider}, {session.model}
                    </dd>
                  </>
                )}
                <dt>Export</dt>
                <dd>
                  <a href={`/v1/threads/${encodeURIComponent(threadId)}/export`} download={`${threadId}.jsonl`}>
                    Download its whole log
                  </a>
                </dd>
              </dl>
            ),
          },
        ]}
      />
      {dialog === 'delete' && <Delete thread={thread} onClose={() => setDialog(undefined)} />}
      {dialog === 'erase' && <EraseThread thread={thread} onClose={() => setDialog(undefined)} />}
      {dialog === 'rename' && <Rename thread={thread} onDone={query.reload} onClose={() => setDialog(undefined)} />}
    </div>
  );
}

function Delete({ thread: { threadId, title }, onClose }: { thread: Thread; onClose: () => void }) {
  const { route } = useLocation();
  const remove = async () => {
    await api(`/v1/threads/${encodeURIComponent(threadId)}`, { method: 'DELETE' });
    notify('The thread is deleted.');
    route('/threads');
  };
  return (
    <Confirm title="Delete the thread?" act="Delete it" danger onConfirm={remove} onClose={onClose}>
      <p>
        <strong>{title === undefined ? threadId : `${threadId}, ${title},`}</strong> goes with everything that was said
        in it. This cannot be taken back. Its runs stay, with what they were asked and answered; an operator erases
        both.
      </p>
    </Confirm>
  );
}

function Rename({ thread, onDone, onClose }: { thread: Thread; onDone: () => Promise<void>; onClose: () => void }) {
  const [title, setTitle] = useState(thread.title ?? '');
  const { busy, error, run } = useAct(async () => {
    const body = { title: title.trim() === '' ? null : title.trim() };
    await api(`/v1/threads/${encodeURIComponent(thread.threadId)}`, { method: 'PATCH', body });
    await onDone();
    onClose();
  });
  return (
    <Dialog title="Rename the thread" onClose={onClose}>
      <Form onSubmit={() => run()}>
        <TextField
          label="Title"
          value={title}
          onValue={setTitle}
          hint={`At most 200 characters. Empty: none. The name stays ${thread.threadId}.`}
        />
        {error && <Problem error={error} />}
        <div class="row end">
          <button type="submit" class="primary" disabled={busy || title.length > 200}>
            Rename
          </button>
        </div>
      </Form>
    </Dialog>
  );
}

const runColumns: readonly Column<RunView>[] = [
  { id: 'run', label: 'Run', cell: ({ runId }) => runId, width: 'minmax(14rem, 2fr)' },
  { id: 'status', label: 'Status', cell: ({ status }) => <Status status={status} />, width: '8rem' },
  { id: 'created', label: 'Begun', cell: ({ createdAt }) => <Time at={createdAt} />, width: '8rem' },
  {
    id: 'duration',
    label: 'Took',
    cell: ({ durationMs }) => <Duration ms={durationMs} />,
    width: '6rem',
    align: 'end',
    wideOnly: true,
  },
  {
    id: 'cost',
    label: 'Cost',
    cell: ({ costMicrocents }) => <Money microcents={costMicrocents} />,
    width: '6rem',
    align: 'end',
    wideOnly: true,
  },
];

function Runs({ threadId }: { threadId: string }) {
  const { data, error, loading, reload } = useQuery<{ runs: readonly RunView[]; cursor?: string }>(
    withQuery('/v1/runs', { thread: threadId, limit: 100 }),
    everyMs * 2,
  );
  if (loading) return <Loading what="Reading its runs" />;
  if (!data) return error ? <Problem error={error} retry={reload} /> : null;
  if (data.runs.length === 0) return <Empty title="No run of this thread is known any more." />;
  return (
    <div class="thread-runs">
      <Table
        label="Runs of the thread"
        columns={runColumns}
        rows={data.runs}
        keyOf={({ runId }) => runId}
        hrefOf={({ runId }) => `/runs/${encodeURIComponent(runId)}`}
        foot={
          data.cursor && (
            <a href={withQuery('/runs', { thread: threadId })}>These are the newest. All runs of this thread</a>
          )
        }
      />
    </div>
  );
}
