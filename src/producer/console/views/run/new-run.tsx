import { useLocation } from 'preact-iso/router';
import { useEffect, useState } from 'preact/hooks';
import type { AgentView } from '../../../../shared/contract/agent/agent.ts';
import type { RunView } from '../../../../shared/contract/run.ts';
import { api } from '../../api.ts';
import { useQuery } from '../../query.ts';
import { may } from '../../session.ts';
import { CopyButton } from '../../ui/copy.tsx';
import { useAct } from '../../ui/dialog.tsx';
import { AgentField, Form, TextArea, TextField } from '../../ui/form.tsx';
import { ScriptedFleet } from '../../ui/scripted.tsx';
import { Empty, Loading, Problem } from '../../ui/states.tsx';
import { useUnsaved } from '../../ui/unsaved.ts';
import { useUrlState } from '../../ui/url-state.ts';
import { bytesOf } from './download.ts';
import { againOf, rerunOf } from './record/again.ts';
import { curlOf, typescriptOf } from './record/copy-as.ts';
import { emptyForm, formOf, readForm, type FieldProblems, type RequestForm } from './record/request-form.ts';
import './run.css';

/** `/runs/new`: starts a run from nothing, with `?agent=` of that agent, with `?again=` from what another run was asked. */
export function NewRun() {
  const [{ again, agent = '', thread = '' }] = useUrlState();
  const agents = useQuery<{ readonly agents: readonly AgentView[] }>('/v1/agents');
  const start = useStart(again, { ...emptyForm, agent, thread });
  if (!may('write'))
    return (
      <Empty title="This key cannot start runs.">
        <p>Log in with a key that has the scope `write`.</p>
      </Empty>
    );
  if (start.kind === 'failed') return <Problem error={start.error} />;
  if (start.kind === 'loading' || (agents.loading && !agents.error))
    return <Loading what="Reading what can be asked" />;
  return (
    <div class="stack narrow">
      <h1>{again ? 'Edit and run again' : 'New run'}</h1>
      {again && (
        <p class="soft">
          Begins as what <a href={`/runs/${encodeURIComponent(again)}`}>{again}</a> was asked. It becomes a run of its
          own.
        </p>
      )}
      <ScriptedFleet />
      {agents.error && <Problem error={agents.error} retry={agents.reload} />}
      <RequestFields agents={agents.data?.agents ?? []} first={start.form} />
    </div>
  );
}

type Start =
  | { readonly kind: 'loading' }
  | { readonly kind: 'form'; readonly form: RequestForm }
  | { readonly kind: 'failed'; readonly error: NonNullable<ReturnType<typeof useQuery>['error']> };

/** What the form holds at first. */
function useStart(again: string | undefined, fresh: RequestForm): Start {
  const run = useQuery<RunView>(again && `/v1/runs/${encodeURIComponent(again)}`);
  const [form, setForm] = useState<RequestForm>();
  const request = run.data?.request;
  const load = useAct(async () => {
    if (request && again !== undefined) setForm(formOf(rerunOf(again, await againOf(request, bytesOf))));
  });
  useEffect(() => void load.run(), [request]);
  if (again === undefined) return { kind: 'form', form: fresh };
  const error = run.error ?? load.error;
  if (error && !form) return { kind: 'failed', error };
  return form ? { kind: 'form', form } : { kind: 'loading' };
}

function RequestFields({ agents, first }: { agents: readonly AgentView[]; first: RequestForm }) {
  const onlyOne = agents.length === 1 ? agents[0]?.id : undefined;
  const [begun] = useState<RequestForm>({ ...first, agent: first.agent || (onlyOne ?? '') });
  const [form, setForm] = useState(begun);
  const [problems, setProblems] = useState<FieldProblems>({});
  useUnsaved(JSON.stringify(form) !== JSON.stringify(begun));
  const { route } = useLocation();
  const send = useAct(async () => {
    const read = readForm(form);
    setProblems(read.kind === 'problems' ? read.problems : {});
    if (read.kind === 'problems') return;
    const { runId } = await api<{ runId: string }>('/v1/runs', { method: 'POST', body: read.request });
    route(`/runs/${encodeURIComponent(runId)}`);
  });
  const field = (name: keyof RequestForm) => ({
    value: form[name],
    error: problems[name],
    onValue: (value: string) => {
      setForm((before) => ({ ...before, [name]: value }));
      setProblems((before) => ({ ...before, [name]: undefined }));
    },
  });
  const read = readForm(form);
  const model = agents.find(({ id }) => id === form.agent.trim());
  return (
    <Form onSubmit={() => void send.run()}>
      <AgentField agents={agents} {...field('agent')} />
      {model?.description && <p class="soft">{model.description}</p>}
      <TextArea label="Input" rows={6} placeholder="What the agent is to do" {...field('input')} />
      <div class="grid">
        <TextField label="Thread" hint="The run goes on in it. Empty: it stands alone." {...field('thread')} />
        <TextField
          label="Cost limit"
          hint="In USD, as 0.05. Empty: the agent's own limit."
          inputMode="decimal"
          {...field('maxCostUsd')}
        />
        <TextField
          label="Step limit"
          hint="Rounds of tool calls; an answer may follow. Empty: the agent's own limit."
          inputMode="numeric"
          {...field('maxSteps')}
        />
        <TextField label="Deadline" hint="Seconds from now. Empty: none." inputMode="decimal" {...field('deadlineS')} />
      </div>
      <details open={form.metadata !== '' || form.model !== '' || form.more !== ''}>
        <summary>Metadata, model, queue and more</summary>
        <div class="form form-inner">
          <TextArea
            label="Metadata"
            rows={2}
            hint="One key=value a line. Runs are found by it."
            {...field('metadata')}
          />
          <div class="grid">
            <TextField label="Model" hint="In place of the agent's." {...field('model')} />
            <TextField label="Queue" hint="Empty: runs." {...field('queue')} />
            <TextField label="Priority" hint="1 comes before 2." inputMode="numeric" {...field('priority')} />
          </div>
          <TextArea label="Other fields of the request" rows={4} hint="As a JSON object." {...field('more')} />
        </div>
      </details>
      {send.error && <Problem error={send.error} />}
      <div class="row">
        <button type="submit" class="primary" disabled={send.busy}>
          {send.busy ? 'Starting…' : 'Start the run'}
        </button>
        {read.kind === 'request' && (
          <>
            <CopyButton text={() => curlOf(read.request, location.origin)} label="Copy as curl" />
            <CopyButton text={() => typescriptOf(read.request, location.origin)} label="Copy as TypeScript" />
          </>
        )}
      </div>
    </Form>
  );
}
