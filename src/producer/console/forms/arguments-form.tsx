import { useMemo, useState } from 'preact/hooks';
import type { Problems } from './check-value.ts';
import {
  asWholeJson,
  changesIn,
  draftOf,
  isTouched,
  problemsIn,
  typedBroken,
  type Draft,
  type ShownChange,
} from './draft.ts';
import { formOf, schemaFor } from './schema-form.ts';
import { JsonText, ValueForm, type ValueFormProps } from './value-form.tsx';
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
  const { schema, original, broken } = draft;
  const field = useMemo(() => formOf(schema ?? schemaFor(original)), [schema, original]);
  const [isJson, setJson] = useState(field.kind === 'json');
  const problems = problemsIn(draft);
  const onValue = (value: unknown) => onDraft((now) => ({ ...now, value, refused: new Map() }));
  const onBroken: ValueFormProps['onBroken'] = (at, what) => onDraft((now) => typedBroken(now, at, what));
  const turn = () => {
    if (!isJson) onDraft(asWholeJson);
    setJson(!isJson);
  };
  return (
    <section class="arguments" aria-label="Arguments">
      <div class="row between">
        <h3>Arguments</h3>
        <div class="row">
          {isTouched(draft) && !disabled && (
            <button
              type="button"
              class="quiet small"
              onClick={() => onDraft((now) => draftOf(now.original, now.schema))}
            >
              Take back my changes
            </button>
          )}
          {field.kind !== 'json' && (
            <button
              type="button"
              class="quiet small"
              aria-pressed={isJson}
              disabled={isJson && broken.has('')}
              title={isJson && broken.has('') ? 'Not before it is JSON again' : undefined}
              onClick={turn}
            >
              {isJson ? 'As a form' : 'As JSON'}
            </button>
          )}
        </div>
      </div>
      {isJson ? (
        <>
          <JsonText
            label="Arguments as JSON"
            {...{ disabled, onValue }}
            value={draft.value}
            rows={6}
            broken={broken.get('')}
            onBroken={(what) => onBroken([], what)}
          />
          {!broken.has('') && <ProblemList problems={problems} />}
        </>
      ) : (
        <>
          {problems.has('') && (
            <p class="field-error" role="alert">
              {problems.get('')}
            </p>
          )}
          <ValueForm {...{ field, problems, broken, disabled, onValue, onBroken }} value={draft.value} />
        </>
      )}
      {schema === undefined && (
        <p class="field-hint">The schema of this tool is too large to be shown: its worker checks what you change.</p>
      )}
    </section>
  );
}

/** Where there are no fields that each say what is wrong with them. */
function ProblemList({ problems }: { problems: Problems }) {
  if (problems.size === 0) return null;
  return (
    <ul class="plain field-error" role="alert">
      {[...problems].map(([path, problem]) => (
        <li key={path}>
          {path || 'All of it'}: {problem}
        </li>
      ))}
    </ul>
  );
}

/** What a person changes, before it is sent. */
export function DraftChanges({ draft }: { draft: Draft }) {
  if (draft.broken.has('')) return <p class="soft">What you change is shown here once it is JSON.</p>;
  return <Changes changes={changesIn(draft)} caption="Your changes" afterIs="Yours" />;
}

/** Where the arguments of a person differ from those of the model. */
export function Changes({
  changes,
  caption,
  afterIs,
}: {
  changes: readonly (Omit<ShownChange, 'isBroken'> & { readonly isBroken?: boolean })[];
  caption: string;
  /** Whose the other arguments are. */
  afterIs: string;
}) {
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
          {changes.map(({ path, before, after, isBroken }) => (
            <tr key={path}>
              <th scope="row">{path || 'all'}</th>
              <td>{before === undefined ? <span class="soft">not given</span> : <del>{before}</del>}</td>
              <td>
                {after === undefined ? <span class="soft">left out</span> : <ins>{after}</ins>}
                {isBroken && <span class="field-error"> is no value yet</span>}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
