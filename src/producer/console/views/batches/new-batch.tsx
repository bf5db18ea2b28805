import { useEffect, useState } from 'preact/hooks';
import { useLocation } from 'preact-iso/router';
import type { AgentView } from '../../../../shared/contract/agent/agent.ts';
import type { BatchRequestInput, BatchView as Batch } from '../../../../shared/contract/batch.ts';
import type { FileView } from '../../../../shared/contract/files.ts';
import { api, request } from '../../api.ts';
import { useQuery } from '../../query.ts';
import { readNumber } from '../../forms/edit-value.ts';
import { countOf } from '../../ui/count-of.ts';
import { Dialog, useAct } from '../../ui/dialog.tsx';
import { AgentField, CheckField, Field, Form, TextArea, TextField } from '../../ui/form.tsx';
import { newKey } from '../../ui/new-key.ts';
import { Problem } from '../../ui/states.tsx';
import { beginning } from './failures.ts';
import { needsTemplate, previewBytes, previewOf, type Preview } from './preview.ts';

const uploadMs = 30 * 60_000;

interface Chosen {
  readonly name: string;
  readonly bytes: number;
  readonly preview: Preview;
  /** Undefined: it has been uploaded before. */
  readonly file: File | undefined;
}

interface Settings {
  readonly agent: string;
  readonly name: string;
  readonly template: string;
  readonly maxCost: string;
  readonly quote: boolean;
  readonly window: string;
}

const nothing: Settings = { agent: '', name: '', template: '', maxCost: '', quote: false, window: '24h' };

/** Uploads a file and starts a batch over its lines. `from`: the id of a batch to begin with, whose file is used again. */
export function NewBatch({ from, onClose }: { from?: string | undefined; onClose: () => void }) {
  const { route } = useLocation();
  const [chosen, setChosen] = useState<Chosen>();
  const [settings, setSettings] = useState(nothing);
  const agents = useQuery<{ agents: readonly AgentView[] }>('/v1/agents').data?.agents ?? [];
  const set = (change: Partial<Settings>) => setSettings((now) => ({ ...now, ...change }));
  // The file is uploaded once, and the batch made once, however often the button is pressed after a failure.
  const [attempt, setAttempt] = useState<{ fileId?: string; key: string }>(() => ({ key: newKey() }));
  const choose = useAct(async (file: File) => {
    const { name, size } = file;
    const text = await file.slice(0, previewBytes).text();
    setChosen({ name, bytes: size, file, preview: await previewOf(name, text, size) });
    setAttempt({ key: newKey() });
  });
  const before = useAct(async (id: string) => {
    const batch = await api<Batch>(`/v1/batches/${encodeURIComponent(id)}`);
    const uploaded = await uploadedBefore(batch.input_file_id);
    setChosen(uploaded);
    setSettings({
      ...nothing,
      agent: batch.agent ?? '',
      template: batch.inputTemplate ?? '',
      window: batch.completion_window,
    });
    setAttempt({ fileId: batch.input_file_id, key: newKey() });
  });
  useEffect(() => {
    if (from) void before.run(from);
  }, [from]);
  const starting = useAct(async () => {
    if (!chosen) return;
    const fileId = attempt.fileId ?? (chosen.file && (await upload(chosen.file)));
    if (fileId === undefined) return;
    setAttempt((now) => ({ ...now, fileId }));
    const batch = await api<Batch>('/v1/batches', {
      method: 'POST',
      body: requestOf(fileId, chosen.preview, { ...settings, agent }),
      headers: { 'idempotency-key': attempt.key },
    });
    route(`/batches/${batch.id}`);
  });
  const agent = settings.agent || (agents.length === 1 ? (agents[0]?.id ?? '') : '');
  const problem = chosen && problemOf(chosen.preview, { ...settings, agent });
  return (
    <Dialog title="Start a batch" onClose={onClose} wide unsaved={chosen !== undefined}>
      <Form onSubmit={() => (chosen && !problem ? starting.run() : undefined)}>
        <FileField onFile={(file) => void choose.run(file)} />
        {choose.error && <Problem error={choose.error} />}
        {before.error && <Problem error={before.error} />}
        {chosen && <Beginning {...chosen} />}
        {chosen && <SettingsFields {...{ set, agents }} settings={{ ...settings, agent }} preview={chosen.preview} />}
        {problem && (
          <p class="field-error" role="status">
            {problem}
          </p>
        )}
        {starting.error && <Problem error={starting.error} />}
        <div class="row end">
          <button type="submit" class="primary" disabled={!chosen || problem !== undefined || starting.busy}>
            {starting.busy
              ? attempt.fileId === undefined
                ? `Uploading ${chosen ? sizeText(chosen.bytes) : ''}…`
                : 'Starting…'
              : `${attempt.fileId === undefined ? 'Upload and ' : ''}${settings.quote ? 'quote' : 'start'}`}
          </button>
        </div>
      </Form>
    </Dialog>
  );
}

function FileField({ onFile }: { onFile: (file: File) => void }) {
  return (
    <Field label="File" hint="JSONL, or CSV with a header. At most 50,000 lines and 200 MB.">
      {(control) => (
        <input
          {...control}
          type="file"
          accept=".jsonl,.ndjson,.csv,application/jsonl,text/csv"
          // A file that was mended is chosen again under the same name: only a field without a file then says so.
          onClick={({ currentTarget }) => (currentTarget.value = '')}
          onChange={({ currentTarget: { files } }) => {
            const file = files?.[0];
            if (file) onFile(file);
          }}
        />
      )}
    </Field>
  );
}

function Beginning({ name: filename, bytes, preview: { format, columns, rows, lines, problems, endpoint } }: Chosen) {
  return (
    <section aria-label="The first lines" class="stack-small">
      <p>
        <strong>{filename}</strong>: {format}, {sizeText(bytes)}, {lines.exact ? '' : 'about '}
        {countOf(lines.count, 'line')}
        {endpoint !== '/v1/runs' && (
          <>
            , requests of <code>{endpoint}</code>
          </>
        )}
        . It begins like this:
      </p>
      <div class="scrolls" tabIndex={0} role="region" aria-label="The first lines, scrolls">
        <table class="simple preview">
          <thead>
            <tr>
              {columns.map((name) => (
                <th scope="col" key={name}>
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row, at) => (
              <tr key={at}>
                {columns.map((name) => (
                  <td key={name} title={row[name]}>
                    {row[name]}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {problems.map((text) => (
        <p key={text} class="field-error">
          {text}
        </p>
      ))}
    </section>
  );
}

function SettingsFields({
  settings,
  set,
  agents,
  preview,
}: {
  settings: Settings;
  set: (change: Partial<Settings>) => void;
  agents: readonly AgentView[];
  preview: Preview;
}) {
  const isOwn = preview.endpoint === '/v1/runs';
  return (
    <>
      {isOwn && (
        <>
          <AgentField
            agents={agents}
            value={settings.agent}
            onValue={(agent) => set({ agent })}
            hint="Of lines that name none."
            optional={preview.columns.includes('agent')}
          />
          <TextField
            label="Name"
            value={settings.name}
            onValue={(name) => set({ name })}
            hint="Optional: its runs carry it. The same line under the same name is the same run."
          />
          <TextArea
            label="What the agent is asked"
            value={settings.template}
            onValue={(template) => set({ template })}
            rows={2}
            hint={
              <>
                {needsTemplate(preview)
                  ? 'Needed: no line has an input of its own. '
                  : 'Empty: the field input of each line. '}
                Fields to use: {preview.columns.map((name) => fieldName(name)).join(' ')}
              </>
            }
          />
        </>
      )}
      <TextField
        label="Spend at most, in USD"
        inputMode="decimal"
        value={settings.maxCost}
        onValue={(maxCost) => set({ maxCost })}
        hint="Of all lines together. Empty: what the tenant may."
      />
      <TextField
        label="Window"
        value={settings.window}
        onValue={(window) => set({ window })}
        hint="Hours (h) or days (d), up to 30d. What has not begun by then is not run."
      />
      <CheckField
        label="First run 20 lines and wait with a quote for all"
        checked={settings.quote}
        onChecked={(quote) => set({ quote })}
      />
    </>
  );
}

function fieldName(name: string): string {
  return /^[A-Za-z_]\w*$/.test(name) ? `{{ ${name} }}` : `{{ row["${name}"] }}`;
}

function problemOf(preview: Preview, { agent, template, maxCost, window }: Settings): string | undefined {
  if (preview.problems.length > 0) return 'Mend the file, and choose it again.';
  if (preview.endpoint === '/v1/runs' && agent === '' && !preview.columns.includes('agent'))
    return 'Choose the agent: the lines name none.';
  if (needsTemplate(preview) && template.trim() === '')
    return 'Say what the agent is asked: no line has the field "input".';
  if (maxCost.trim() !== '' && !isSum(maxCost)) return 'What it may spend must be a sum above 0.';
  if (!/^[1-9]\d{0,2}[hd]$/.test(window)) return 'The window must be a number of hours or days, for instance 24h.';
  return undefined;
}

function isSum(text: string): boolean {
  const typed = readNumber(text, false);
  return typed.ok && typeof typed.value === 'number' && typed.value > 0;
}

export function requestOf(fileId: string, { endpoint }: Preview, settings: Settings): BatchRequestInput {
  const { agent, name, template, maxCost, quote, window } = settings;
  const common = {
    input_file_id: fileId,
    completion_window: window,
    ...(maxCost.trim() !== '' && { budget: { maxCostUsd: Number(maxCost) } }),
    ...(quote && { quote: {} }),
  };
  if (endpoint !== '/v1/runs') return { ...common, endpoint };
  return {
    ...common,
    endpoint,
    ...(agent !== '' && { agent }),
    ...(name.trim() !== '' && { name: name.trim() }),
    ...(template.trim() !== '' && { inputTemplate: template }),
  };
}

async function uploadedBefore(fileId: string): Promise<Chosen> {
  const path = `/v1/files/${encodeURIComponent(fileId)}`;
  const { filename: name, bytes } = await api<FileView>(path);
  const leave = new AbortController();
  const response = await request(`${path}/content`, { signal: leave.signal, headers: { accept: '*/*' } });
  const { text } = await beginning(response, previewBytes);
  leave.abort();
  return { name, bytes, file: undefined, preview: await previewOf(name, text, bytes) };
}

async function upload(file: File): Promise<string> {
  const form = new FormData();
  form.append('purpose', 'batch');
  form.append('file', file, file.name);
  const { id } = await api<FileView>('/v1/files', {
    method: 'POST',
    body: form,
    deadlineMs: uploadMs,
  });
  return id;
}

function sizeText(bytes: number): string {
  if (bytes < 1_024) return `${bytes} bytes`;
  if (bytes < 1_048_576) return `${(bytes / 1_024).toFixed(1)} KB`;
  return `${(bytes / 1_048_576).toFixed(1)} MB`;
}
