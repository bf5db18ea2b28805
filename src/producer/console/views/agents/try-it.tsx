import { useMemo, useState } from 'preact/hooks';
import { useLocation } from 'preact-iso/router';
import { api } from '../../api.ts';
import { Dialog, useAct } from '../../ui/dialog.tsx';
import { Form, TextArea, TextField } from '../../ui/form.tsx';
import { newKey } from '../../ui/new-key.ts';
import { Problem } from '../../ui/states.tsx';
import { dollarsOf } from '../money/dollars.ts';

/** Starts a run of the agent and leads to its page. A second click with the same words starts no second run. */
export function TryIt({ id, onClose }: { id: string; onClose: () => void }) {
  const { route } = useLocation();
  const [input, setInput] = useState('');
  const [most, setMost] = useState('');
  // Other words are another run.
  const key = useMemo(newKey, [input, most]);
  const maxCostUsd = dollarsOf(most);
  const wrong = most.trim() !== '' && maxCostUsd === undefined;
  const { busy, error, run } = useAct(async () => {
    const budget = maxCostUsd === undefined ? undefined : { maxCostUsd };
    const headers = { 'idempotency-key': key };
    const { runId } = await api<{ readonly runId: string }>('/v1/runs', {
      method: 'POST',
      body: { agent: id, input, budget },
      headers,
    });
    route(`/runs/${runId}`);
  });
  return (
    <Dialog title={`Try ${id}`} onClose={onClose}>
      <Form onSubmit={run}>
        <TextArea label="What it is asked" value={input} onValue={setInput} rows={6} required />
        <TextField
          label="At most, in dollars"
          inputMode="decimal"
          value={most}
          onValue={setMost}
          hint="Empty: as the agent and the tenant have it."
          error={wrong ? 'A number above 0, like 0.50' : undefined}
        />
        {error && <Problem error={error} />}
        <footer class="row end">
          <button type="button" onClick={onClose}>
            Back
          </button>
          <button type="submit" class="primary" disabled={busy || input.trim() === '' || wrong}>
            {busy ? 'Starting…' : 'Start a run'}
          </button>
        </footer>
      </Form>
    </Dialog>
  );
}
