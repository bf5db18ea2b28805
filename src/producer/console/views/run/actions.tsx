import { useLocation } from 'preact-iso/router';
import { useMemo, useState } from 'preact/hooks';
import type { RunSteps } from '../../../../shared/contract/archive/run-steps.ts';
import { isTerminalStatus } from '../../../../shared/contract/plain/ends.ts';
import type { RunView } from '../../../../shared/contract/run.ts';
import { api } from '../../api.ts';
import { may } from '../../session.ts';
import { CopyButton } from '../../ui/copy.tsx';
import { Confirm, useAct } from '../../ui/dialog.tsx';
import { CheckField, SelectField, TextField } from '../../ui/form.tsx';
import { notify } from '../../ui/notice.tsx';
import { saveFile } from '../../ui/save.ts';
import { Problem } from '../../ui/states.tsx';
import { EraseRun } from '../erase/erase-run.tsx';
import { bytesOf, exportOf } from './download.ts';
import { againOf, rerunOf, shownAgain } from './record/again.ts';
import { curlOf, typescriptOf } from './record/copy-as.ts';
import { savedTest } from './record/saved-test.ts';
import { allCalls } from './record/waterfall.ts';

export interface ActionsProps {
  readonly run: RunView;
  /** Undefined: they are being read. */
  readonly steps: RunSteps | undefined;
  readonly onChanged: () => Promise<void>;
  readonly onRedriven: () => void;
}

/** What can be done with a run. Each needs a right of the key; what that lacks is not offered. */
export function Actions(props: ActionsProps) {
  const { run, steps } = props;
  const { request } = run;
  const [asking, setAsking] = useState<'again' | 'cancel' | 'redrive' | 'erase'>();
  const called = useMemo(() => [...new Set(allCalls(steps?.steps ?? []).map(({ toolName }) => toolName))], [steps]);
  const { route } = useLocation();
  const isOver = isTerminalStatus(run.status);
  const again = useAct(async () => {
    if (!request) return;
    const body = rerunOf(run.runId, await againOf(request, bytesOf));
    const { runId } = await api<{ runId: string }>('/v1/runs', { method: 'POST', body });
    notify('The same was asked once more. This is the new run.');
    route(`/runs/${encodeURIComponent(runId)}`);
  });
  const files = useFiles(run);
  const canStart = may('write') && request !== undefined;
  const error = again.error ?? files.error;
  return (
    <div class="stack-small">
      <div class="row" role="toolbar" aria-label="What can be done with this run">
        {canStart && (
          <button
            type="button"
            disabled={again.busy}
            title="Asks the same once more, from the beginning, as a new run"
            onClick={() => (called.length > 0 ? setAsking('again') : void again.run())}
          >
            {again.busy ? 'Asking…' : 'Run again'}
          </button>
        )}
        {canStart && (
          <a
            class="button"
            href={`/runs/new?again=${encodeURIComponent(run.runId)}`}
            title="Opens the form of a new run with what this one was asked"
          >
            Edit and run again
          </a>
        )}
        {may('write') && !isOver && (
          <button type="button" onClick={() => setAsking('cancel')} disabled={run.cancelling}>
            {run.cancelling ? 'Cancelling…' : 'Cancel'}
          </button>
        )}
        {may('write') && run.status === 'failed' && (
          <button
            type="button"
            title="Goes on where it failed, under the same id: what is finished is kept, and not paid again"
            onClick={() => setAsking('redrive')}
          >
            Redrive
          </button>
        )}
        {request && (
          <>
            <CopyButton text={() => curlOf(shownAgain(request), location.origin)} label="Copy as curl" />
            <CopyButton text={() => typescriptOf(shownAgain(request), location.origin)} label="Copy as TypeScript" />
          </>
        )}
        <button type="button" class="quiet" disabled={files.busy} onClick={() => void files.run('export')}>
          Export
        </button>
        {isOver && (
          <button type="button" class="quiet" disabled={files.busy} onClick={() => void files.run('test')}>
            Save as test
          </button>
        )}
        {may('admin') && (
          <button type="button" class="quiet tone-bad" onClick={() => setAsking('erase')}>
            Erase
          </button>
        )}
      </div>
      {error && <Problem error={error} />}
      {asking === 'again' && (
        <Confirm title="Run it again?" act="Run again" onConfirm={again.run} onClose={() => setAsking(undefined)}>
          <p>A new run begins from the beginning. Its model may call these tools again, with all that they do:</p>
          <p>
            <code>{called.join(', ')}</code>
          </p>
        </Confirm>
      )}
      {asking === 'cancel' && <Cancel {...props} onClose={() => setAsking(undefined)} />}
      {asking === 'redrive' && <Redrive {...props} onClose={() => setAsking(undefined)} />}
      {asking === 'erase' && (
        <EraseRun {...props} childCount={steps?.children.length ?? 0} onClose={() => setAsking(undefined)} />
      )}
    </div>
  );
}

function useFiles({ runId, agent }: RunView) {
  return useAct(async (what: 'export' | 'test') => {
    const name = `${agent}-${runId}`.replaceAll(/[^\w.-]/g, '_');
    const exportName = `${name}.export.json`;
    saveFile(exportName, new Blob([await exportOf(runId)], { type: 'application/json' }));
    if (what === 'export') return;
    saveFile(`${name}.test.ts`, new Blob([savedTest({ exportName, agent, runId })], { type: 'text/plain' }));
    notify('Two files: put them beside each other, and run the test with `npx vitest run`.');
  });
}

type AskProps = ActionsProps & { readonly onClose: () => void };

function Cancel({ run, onChanged, onClose }: AskProps) {
  const [drain, setDrain] = useState(false);
  const [pending, setPending] = useState('deny');
  const [reason, setReason] = useState('');
  const onConfirm = async () => {
    const body = { drain, onPendingApprovals: pending, ...(reason.trim() !== '' && { reason: reason.trim() }) };
    await api(`/v1/runs/${encodeURIComponent(run.runId)}/cancel`, { method: 'POST', body });
    notify('The run is being cancelled.');
    await onChanged();
  };
  return (
    <Confirm title="Cancel this run?" act="Cancel the run" danger onConfirm={onConfirm} onClose={onClose}>
      <p>It ends as cancelled, and so do the runs that work for it. What it has done stays done.</p>
      <CheckField label="Let the step that is under way finish first" checked={drain} onChecked={setDrain} />
      {run.status === 'suspended' && (
        <SelectField
          label="Calls that wait for a person"
          value={pending}
          onValue={setPending}
          choices={[
            { value: 'deny', label: 'are denied' },
            { value: 'hold', label: 'are waited for first' },
            { value: 'fail', label: 'fail the run' },
          ]}
        />
      )}
      <TextField label="Reason" hint="Others see it in the run." value={reason} onValue={setReason} />
    </Confirm>
  );
}

function Redrive({ run, onChanged, onRedriven, onClose }: AskProps) {
  const isLate = run.deadlineAt !== undefined && Date.parse(run.deadlineAt) < Date.now();
  const [minutes, setMinutes] = useState('60');
  const onConfirm = async () => {
    const body = isLate ? { deadlineMs: Math.round(Number(minutes) * 60_000) } : {};
    await api(`/v1/runs/${encodeURIComponent(run.runId)}/redrive`, { method: 'POST', body });
    notify('The run is queued again.');
    onRedriven();
    await onChanged();
  };
  return (
    <Confirm title="Redrive this run?" act="Redrive" onConfirm={onConfirm} onClose={onClose}>
      <p>It goes on where it failed, under the same id. Steps that are finished are kept, and not paid again.</p>
      {run.error && !run.error.retryable && (
        <p class="tone-wait">
          It failed with <code>{run.error.code}</code>: unless something has changed since, it fails again in the same
          way. To ask for something else, edit and run it again.
        </p>
      )}
      {isLate && (
        <TextField
          label="Minutes until its new deadline"
          hint="The deadline that it had has passed."
          inputMode="decimal"
          value={minutes}
          onValue={setMinutes}
        />
      )}
    </Confirm>
  );
}
