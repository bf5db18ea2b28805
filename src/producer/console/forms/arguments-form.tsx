import { useMemo, useState } from 'preact/hooks';
import { draftOf, isEdited, problemsIn, type Draft } from './draft.ts';
import { changesBetween } from './edit-value.ts';
import { formOf, schemaFor } from './schema-form.ts';
import { JsonText, ValueForm } from './value-form.tsx';
import './forms.css';

/** Edits the arguments of a call, in a form or as JSON. */
export function ArgumentsForm({
  draft,
  onDraft,
  disabled,
}: {
  draft: Draft;
  onDraft: (change: (now: Draft) => Draft) => void;
  disabled: boolean;
}) {
  const [asJson, setAsJson] = useState(false);
  const { schema, original } = draft;
  const field = useMemo(() => formOf(schema ?? schemaFor(original)), [schema, original]);
  const problems = problemsIn(draft);
  const whole = problems.get('');
  const onValue = (value: unknown) => onDraft((now) => ({ ...now, value, refused: new Map() }));
  const onBroken = (path: string, problem: string | undefined) =>
    onDraft((now) => {
      const others = [...now.broken].filter(([at]) => at !== path && !at.startsWith(`${path}.`));
      const broken = new Map([...others, ...(problem === undefined ? [] : [[path, problem] as const])]);
      return { ...now, broken };
    });
  // A form that was left takes what was typed into it, and was no value, along.
  const turn = () => {
    onDraft((now) => ({ ...now, broken: new Map() }));
    setAsJson(!asJson);
  };
  return (
    <section class="arguments" aria-label="Arguments">
      <div class="row between">
        <h3>Arguments</h3>
        <div class="row">
          {isEdited(draft) && !disabled && (
            <button
              type="button"
              class="quiet small"
              onClick={() => onDraft((now) => draftOf(now.original, now.schema))}
            >
              Take back my changes
            </button>
          )}
          <button type="button" class="quiet small" aria-pressed={asJson} onClick={turn}>
            {asJson ? 'As a form' : 'As JSON'}
          </button>
        </div>
      </div>
      {whole && (
        <p class="field-error" role="alert">
          {whole}
        </p>
      )}
      {asJson || field.kind === 'json' ? (
        <JsonText
          label="Arguments as JSON"
          {...{ disabled, onValue }}
          value={draft.value}
          rows={6}
          onBroken={(problem) => onBroken('', problem)}
        />
      ) : (
        <ValueForm {...{ field, problems, disabled, onValue, onBroken }} value={draft.value} />
      )}
      {schema === undefined && (
        <p class="field-hint">The schema of this tool is too large to be shown: its worker checks what you change.</p>
      )}
    </section>
  );
}

/** Where two values of arguments differ, leaf by leaf. */
export function Changes({
  before: model,
  after: person,
  caption,
  afterIs,
}: {
  before: unknown;
  after: unknown;
  caption: string;
  /** Whose the other arguments are. */
  afterIs: string;
}) {
  const changes = changesBetween(model, person);
  if (changes.length === 0) return null;
  return (
    <div class="scrolls">
      <table class="changes">
        <caption>{caption}</caption>
        <thead>
          <tr>
            <th scope="col">Argument</th>
            <th scope="col">The model's</th>
            <th scope="col">{afterIs}</th>
          </tr>
        </thead>
        <tbody>
          {changes.map(({ path, before, after }) => (
            <tr key={path}>
              <th scope="row">{path || 'all'}</th>
              <td>{before === undefined ? <span class="soft">not given</span> : <del>{before}</del>}</td>
              <td>{after === undefined ? <span class="soft">left out</span> : <ins>{after}</ins>}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
