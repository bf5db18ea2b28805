import { useMemo, useState } from 'preact/hooks';
import type { BudgetView } from '../../../../shared/contract/money.ts';
import { api } from '../../api.ts';
import { Dialog, useAct } from '../../ui/dialog.tsx';
import { Form, SelectField, TextField } from '../../ui/form.tsx';
import { formatMoney } from '../../ui/money.tsx';
import { newKey } from '../../ui/new-key.ts';
import { notify } from '../../ui/notice.tsx';
import { Problem } from '../../ui/states.tsx';
import { dollarsOf } from './dollars.ts';

interface Done {
  readonly onDone: () => Promise<void>;
  readonly onClose: () => void;
}

const onExceedChoices = [
  { value: 'fail', label: 'runs fail' },
  { value: 'pause_for_approval', label: 'runs wait for a person' },
  { value: 'warn', label: 'runs go on, with a warning' },
];

/** Adds money to an account. A second click with the same amount adds nothing. */
export function TopUp({ budget, onDone, onClose }: Done & { budget: BudgetView }) {
  const { scope, id, capMicrocents = 0, waiting } = budget;
  const [amount, setAmount] = useState('');
  const key = useMemo(newKey, [amount]);
  const usd = dollarsOf(amount);
  const { busy, error, run } = useAct(async () => {
    if (usd === undefined) return;
    const path = `/v1/budgets/${scope}/${encodeURIComponent(id)}/top-ups`;
    const after = await api<BudgetView>(path, { method: 'POST', body: { usd }, headers: { 'idempotency-key': key } });
    notify(`${scope} ${id} may spend ${formatMoney(after.capMicrocents ?? 0)} now.`);
    await onDone();
    onClose();
  });
  return (
    <Dialog title={`Top up ${scope} ${id}`} onClose={onClose}>
      <Form onSubmit={run}>
        <p>
          The cap is {formatMoney(capMicrocents)}.{' '}
          {waiting > 0 && `Runs that wait for this money (${waiting}) go on by themselves.`}
        </p>
        <TextField
          label="How many dollars more"
          inputMode="decimal"
          value={amount}
          onValue={setAmount}
          required
          error={amount !== '' && usd === undefined ? 'A number above 0, like 5 or 0.50' : undefined}
        />
        {error && <Problem error={error} />}
        <footer class="row end">
          <button type="button" onClick={onClose}>
            Back
          </button>
          <button type="submit" class="primary" disabled={busy || usd === undefined}>
            {busy ? 'Adding…' : 'Add it'}
          </button>
        </footer>
      </Form>
    </Dialog>
  );
}

/** Sets the cap that all runs which name a batch share. */
export function SetBudget({ onDone, onClose }: Done) {
  const [batch, setBatch] = useState('');
  const [amount, setAmount] = useState('');
  const [onExceed, setOnExceed] = useState('fail');
  const maxCostUsd = dollarsOf(amount);
  const { busy, error, run } = useAct(async () => {
    if (maxCostUsd === undefined) return;
    const path = `/v1/budgets/batch/${encodeURIComponent(batch.trim())}`;
    await api<BudgetView>(path, { method: 'PUT', body: { maxCostUsd, onExceed } });
    notify(`The budget of batch ${batch.trim()} is set.`);
    await onDone();
    onClose();
  });
  return (
    <Dialog title="Set the budget of a batch" onClose={onClose}>
      <Form onSubmit={run}>
        <TextField
          label="Batch"
          value={batch}
          onValue={setBatch}
          required
          hint="All runs that name it share this budget. What was topped up stays."
        />
        <TextField
          label="Dollars"
          inputMode="decimal"
          value={amount}
          onValue={setAmount}
          required
          error={amount !== '' && maxCostUsd === undefined ? 'A number above 0, like 10 or 0.50' : undefined}
        />
        <SelectField label="When it is spent" value={onExceed} onValue={setOnExceed} choices={onExceedChoices} />
        {error && <Problem error={error} />}
        <footer class="row end">
          <button type="button" onClick={onClose}>
            Back
          </button>
          <button type="submit" class="primary" disabled={busy || batch.trim() === '' || maxCostUsd === undefined}>
            {busy ? 'Setting…' : 'Set it'}
          </button>
        </footer>
      </Form>
    </Dialog>
  );
}
