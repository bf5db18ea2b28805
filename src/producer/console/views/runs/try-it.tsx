import { useLocation } from 'preact-iso/router';
import { useState } from 'preact/hooks';
import type { AgentView } from '../../../../shared/contract/agent/agent.ts';
import { api } from '../../api.ts';
import { may } from '../../session.ts';
import { useAct } from '../../ui/dialog.tsx';
import { Form, SelectField, TextArea } from '../../ui/form.tsx';
import { Problem } from '../../ui/states.tsx';

/** Inputs that the agents of a new project have an answer to. */
const firstInputs: Readonly<Record<string, string>> = { support: 'Where is order 7?' };

/** Where nothing has run yet: a first run, ready to be sent. */
export function TryIt({ agents }: { agents: readonly AgentView[] }) {
  const { route } = useLocation();
  const first = agents.find(({ id }) => id in firstInputs) ?? agents[0];
  // The agents may come after the form.
  const [chosen, choose] = useState<string>();
  const agent = chosen ?? first?.id ?? '';
  const [typed, type] = useState<string>();
  const input = typed ?? firstInputs[agent] ?? 'Hello';
  const { busy, error, run } = useAct(async () => {
    const { runId } = await api<{ runId: string }>('/v1/runs', { method: 'POST', body: { agent, input } });
    route(`/runs/${runId}`);
  });
  if (!may('write') || agents.length === 0) return null;
  return (
    <div class="try-it card">
      <Form onSubmit={() => run()}>
        <SelectField
          label="Agent"
          value={agent}
          onValue={choose}
          choices={agents.map(({ id, name }) => ({ value: id, label: name ?? id }))}
        />
        <TextArea label="Input" value={input} onValue={type} rows={2} required />
        {error && <Problem error={error} />}
        <div class="row end">
          <button class="primary" disabled={busy}>
            {busy ? 'Starting…' : 'Start the first run'}
          </button>
        </div>
      </Form>
    </div>
  );
}
