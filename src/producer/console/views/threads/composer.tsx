import { useRef, useState } from 'preact/hooks';
import type { ThreadView as Thread } from '../../../../shared/contract/thread/thread-items.ts';
import { api, ApiError } from '../../api.ts';
import { useKeys } from '../../keys.ts';
import { may } from '../../session.ts';
import { useAct } from '../../ui/dialog.tsx';
import { SelectField, TextArea } from '../../ui/form.tsx';
import { newKey } from '../../ui/new-key.ts';
import { notify } from '../../ui/notice.tsx';
import { Problem } from '../../ui/states.tsx';
import { sendMessage, type Sent, type WhileBusy } from './send.ts';

const choices = [
  { value: 'steer', label: 'steer: the running answer reads it' },
  { value: 'queue', label: 'queue: answered after it' },
  { value: 'interrupt', label: 'interrupt: the running answer stops' },
] as const;

/** Says something in the thread, and stops what is answering. `answering` is the run that does. */
export function Composer({
  thread: { threadId, agentId },
  answering,
  onSent,
}: {
  thread: Thread;
  answering: string | undefined;
  onSent: (sent: Sent, text: string) => void;
}) {
  const [text, setText] = useState('');
  const [mode, setMode] = useState<WhileBusy>('steer');
  const box = useRef<HTMLDivElement>(null);
  // The same text that is sent again after a lost answer is the same message.
  const attempt = useRef<{ readonly text: string; readonly id: string } | undefined>(undefined);
  const sending = useAct(async () => {
    if (attempt.current?.text !== text) attempt.current = { text, id: `console:${newKey()}` };
    const onBusy = answering === undefined ? 'queue' : mode;
    const sent = await sendMessage({ agent: agentId, threadId, text, onBusy, executionId: attempt.current.id });
    attempt.current = undefined;
    setText('');
    if (sent.attached && onBusy === 'steer') notify('The running answer reads this before its next step.');
    onSent(sent, text);
  });
  const stopping = useAct(async () => {
    try {
      await api(`/v1/runs/${encodeURIComponent(answering ?? '')}/cancel`, {
        method: 'POST',
        body: { reason: 'stopped in the console' },
      });
      notify('The answer is being stopped.');
    } catch (error) {
      if (!(error instanceof ApiError && error.code === 'already_terminal')) throw error;
    }
  });
  useKeys({ c: { what: 'Write a message', run: () => box.current?.querySelector('textarea')?.focus() } });
  if (!may('write'))
    return <p class="cannot soft">Your key lacks the scope "write": you can read this thread, and not write in it.</p>;
  const canSend = !sending.busy && text.trim() !== '';
  return (
    <div class="composer" ref={box}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (canSend) void sending.run();
        }}
        onKeyDown={(event) => {
          if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return;
          event.preventDefault();
          if (canSend) void sending.run();
        }}
      >
        <TextArea label="Message" value={text} onValue={setText} rows={3} hint={`To ${agentId}. Ctrl+Enter sends.`} />
        <div class="row">
          {answering !== undefined && (
            <SelectField
              label="While it answers"
              value={mode}
              onValue={(value) => setMode(choices.find((each) => each.value === value)?.value ?? 'steer')}
              choices={choices}
            />
          )}
          <button type="submit" class="primary" disabled={!canSend}>
            {sending.busy ? 'Sending…' : 'Send'}
          </button>
          {answering !== undefined && (
            <button type="button" class="danger" disabled={stopping.busy} onClick={() => void stopping.run()}>
              Stop the answer
            </button>
          )}
        </div>
      </form>
      {(sending.error ?? stopping.error) && <Problem error={(sending.error ?? stopping.error)!} />}
    </div>
  );
}
