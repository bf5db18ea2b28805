import type { ComponentChildren } from 'preact';
import { useLocation } from 'preact-iso/router';
import { useState } from 'preact/hooks';
import type { ErasureReceipt } from '../../../../shared/contract/erasure/receipt.ts';
import { api } from '../../api.ts';
import { countOf } from '../../ui/count-of.ts';
import { Dialog, useAct } from '../../ui/dialog.tsx';
import { newKey } from '../../ui/new-key.ts';
import { saveFile } from '../../ui/save.ts';
import { Problem } from '../../ui/states.tsx';

/** It waits for runs that are cancelled, and looks for a minute at what else refers to a file. */
const eraseMs = 180_000;

export interface EraseProps {
  readonly title: string;
  /** What is asked to be deleted. */
  readonly path: string;
  /** Says what goes. */
  readonly children: ComponentChildren;
  /** What the button says where more goes than the title names. */
  readonly act?: string | undefined;
  /** Where to go once it is gone. */
  readonly home: '/runs' | '/threads';
  readonly onClose: () => void;
}

/** Asks before something is erased, and then has the receipt. */
export function Erase({ title, path, children, act = 'Erase for good', home, onClose }: EraseProps) {
  const [receipt, setReceipt] = useState<ErasureReceipt>();
  const { route } = useLocation();
  const [key] = useState(newKey);
  const { busy, error, run } = useAct(async () => {
    const headers = { 'idempotency-key': key };
    const answer = await api<{ receipt: ErasureReceipt }>(path, { method: 'DELETE', headers, deadlineMs: eraseMs });
    setReceipt(answer.receipt);
  });
  if (receipt) return <Erased {...{ receipt, home }} onClose={() => route(home)} />;
  return (
    <Dialog title={title} onClose={onClose}>
      {children}
      <p>This cannot be taken back. Costs and the audit log stay: they have none of its text.</p>
      {error && <Problem error={error} />}
      {error?.code === 'unreachable' && (
        <p class="soft">Send it once more: it goes on where it was, and the receipt is not lost.</p>
      )}
      <footer class="row end">
        <button type="button" onClick={onClose}>
          Back
        </button>
        <button type="button" class="danger" disabled={busy} onClick={() => void run()}>
          {busy ? 'Erasing…' : act}
        </button>
      </footer>
    </Dialog>
  );
}

type ErasedProps = Pick<EraseProps, 'home' | 'onClose'> & { readonly receipt: ErasureReceipt };

function Erased({ receipt, home, onClose }: ErasedProps) {
  const { runs, threads, kept, unreadable, receiptId } = receipt;
  const stays = kept.media + kept.files;
  const save = () =>
    saveFile(
      `erasure-${receiptId}.json`,
      new Blob([`${JSON.stringify(receipt, null, 2)}\n`], { type: 'application/json' }),
    );
  return (
    <Dialog title="Erased" onClose={onClose}>
      <p>
        Gone, with all that belonged to it: {countOf(runs.length, 'run')}
        {threads.length > 0 && ` and ${countOf(threads.length, 'thread')}`}.
      </p>
      {stays > 0 && (
        <p>
          {countOf(stays, 'file')} stayed, because something that was not erased refers to {stays === 1 ? 'it' : 'them'}
          , or may.
        </p>
      )}
      {unreadable && (
        <p class="waiting">
          Of {countOf(unreadable.count, 'run')} the record could not be read: see <code>unreadable</code> in the
          receipt.
        </p>
      )}
      <p>The receipt says so, and is signed. Millrace keeps no copy of it.</p>
      <footer class="row end">
        <button type="button" onClick={onClose}>
          Go to the {home.slice(1)}
        </button>
        <button type="button" class="primary" onClick={save}>
          Save the receipt
        </button>
      </footer>
    </Dialog>
  );
}
