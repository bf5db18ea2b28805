import { useState } from 'preact/hooks';
import { useLocation } from 'preact-iso/router';
import type { AgentView } from '../../../../shared/contract/agent/agent.ts';
import type { ThreadView as Thread } from '../../../../shared/contract/thread/thread-items.ts';
import { api, ApiError } from '../../api.ts';
import { Dialog, useAct } from '../../ui/dialog.tsx';
import { AgentField, Form, TextArea, TextField } from '../../ui/form.tsx';
import { newKey } from '../../ui/new-key.ts';
import { Problem } from '../../ui/states.tsx';
import { Time } from '../../ui/time.tsx';
import { sendMessage } from './send.ts';

const namePattern = /^[A-Za-z0-9._:-]{1,128}$/;

/** Begins a thread. With the name of one that is there it says so first, and goes on with that one when it is asked again. */
export function NewThread({ agents, onClose }: { agents: readonly AgentView[]; onClose: () => void }) {
  const { route } = useLocation();
  const [chosen, setChosen] = useState('');
  const [name, setName] = useState('');
  const [text, setText] = useState('');
  const [known, setKnown] = useState<Thread>();
  const agent = chosen || (agents.length === 1 ? (agents[0]?.id ?? '') : '');
  const wanted = name.trim();
  const there = known?.threadId === wanted ? known : undefined;
  const { busy, error, run } = useAct(async () => {
    if (wanted !== '' && !there) {
      const found = await threadOf(wanted);
      setKnown(found);
      if (found) return;
    }
    const threadId = wanted || `console-${newKey().slice(-8)}`;
    await sendMessage({ agent, threadId, text, onBusy: 'queue', executionId: `console:${newKey()}` });
    route(`/threads/${encodeURIComponent(threadId)}`);
  });
  const isBadName = wanted !== '' && !namePattern.test(wanted);
  const isOthers = there !== undefined && there.agentId !== agent;
  const cannot = busy || agent === '' || text.trim() === '' || isBadName || isOthers;
  return (
    <Dialog title="New thread" onClose={onClose} unsaved={text.trim() !== ''}>
      <Form onSubmit={() => (cannot ? undefined : run())}>
        <AgentField {...{ agents }} value={agent} onValue={setChosen} />
        <TextField
          label="Name"
          value={name}
          onValue={setName}
          hint="Optional: one is made. It stays what the thread is known by, for instance customer-42."
          error={isBadName ? 'Only letters, digits and . _ : - , at most 128' : undefined}
        />
        <TextArea label="Message" value={text} onValue={setText} required />
        {there && <There thread={there} isOthers={isOthers} />}
        {error && <Problem error={error} />}
        <div class="row end">
          <button type="submit" class="primary" disabled={cannot}>
            {busy ? 'Sending…' : there ? 'Send it to this thread' : 'Send'}
          </button>
        </div>
      </Form>
    </Dialog>
  );
}

function There({ thread: { threadId, title, agentId, updatedAt }, isOthers }: { thread: Thread; isOthers: boolean }) {
  return (
    <p class="away" role="status">
      <span>
        There is a thread <a href={`/threads/${encodeURIComponent(threadId)}`}>{threadId}</a>
        {title && ` (${title})`} of the agent {agentId} already, changed last at <Time at={updatedAt} />.{' '}
        {isOthers
          ? 'It goes on with its own agent only: choose that, or another name.'
          : 'Your message would continue it. For a thread of its own, choose another name.'}
      </span>
    </p>
  );
}

async function threadOf(name: string): Promise<Thread | undefined> {
  try {
    return await api<Thread>(`/v1/threads/${encodeURIComponent(name)}`);
  } catch (error) {
    if (error instanceof ApiError && error.code === 'not_found') return undefined;
    throw error;
  }
}
