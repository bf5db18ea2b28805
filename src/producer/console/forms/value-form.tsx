import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { Field } from '../ui/form.tsx';
import type { Problems } from './check-value.ts';
import type { Broken } from './draft.ts';
import { readJson, readNumber, withAt, withoutAt, type Typed } from './edit-value.ts';
import { firstValue, isRecord, pathText, type FormField, type Path } from './schema-form.ts';

export interface ValueFormProps {
  readonly field: FormField;
  readonly value: unknown;
  readonly problems: Problems;
  readonly broken: ReadonlyMap<string, Broken>;
  readonly disabled: boolean;
  readonly onValue: (value: unknown) => void;
  /** What was typed at the path is no value (yet); undefined: it is one again. */
  readonly onBroken: (at: Path, what: Omit<Broken, 'at'> | undefined) => void;
}

/** A form for a value of a JSON Schema. What it does not know of the value stays in it as it is. */
export function ValueForm({ value, onValue, ...form }: ValueFormProps) {
  const edit: Edit = {
    ...form,
    set: (path, next) => onValue(withAt(value, path, next)),
    remove: (path) => {
      // The items behind one that goes move up, and with them what was typed there.
      form.onBroken(typeof path.at(-1) === 'number' ? path.slice(0, -1) : path, undefined);
      onValue(withoutAt(value, path));
    },
  };
  return <Part edit={edit} field={form.field} value={value} path={[]} presence="required" />;
}

interface Edit extends Pick<ValueFormProps, 'problems' | 'broken' | 'disabled' | 'onBroken'> {
  readonly set: (path: Path, next: unknown) => void;
  readonly remove: (path: Path) => void;
}

interface PartProps {
  readonly edit: Edit;
  readonly field: FormField;
  readonly value: unknown;
  readonly path: Path;
  /** Items of a list can be removed, and have no name of their own. */
  readonly presence: 'required' | 'optional' | 'item';
}

function Part(props: PartProps) {
  const { edit, field, value, path, presence } = props;
  if (value === undefined && presence !== 'item') return <Absent {...props} />;
  if (value === null && field.kind !== 'json' && field.kind !== 'choice') return <Null {...props} />;
  const beside = (
    <>
      {field.nullable && <Small {...{ edit, path }} act="Set to null" run={() => edit.set(path, null)} />}
      {presence === 'optional' && <Small {...{ edit, path }} act="Leave out" run={() => edit.remove(path)} />}
      {presence === 'item' && <Small {...{ edit, path }} act="Remove" run={() => edit.remove(path)} />}
    </>
  );
  switch (field.kind) {
    case 'object':
      return isRecord(value) ? (
        <ObjectPart {...props} {...{ field, value, beside }} />
      ) : (
        <JsonPart {...props} beside={beside} />
      );
    case 'list':
      return Array.isArray(value) ? (
        <ListPart {...props} {...{ field, beside }} value={value as readonly unknown[]} />
      ) : (
        <JsonPart {...props} beside={beside} />
      );
    case 'text':
      return typeof value === 'string' ? (
        <TextPart {...props} {...{ field, value, beside }} />
      ) : (
        <JsonPart {...props} beside={beside} />
      );
    case 'number':
      return <TypedPart {...props} {...{ beside }} hint={field.hint} read={(text) => readNumber(text, field.whole)} />;
    case 'flag':
      return typeof value === 'boolean' ? (
        <FlagPart {...props} {...{ value, beside }} />
      ) : (
        <JsonPart {...props} beside={beside} />
      );
    case 'choice':
      return <ChoicePart {...props} {...{ field, beside }} />;
    case 'json':
      return <JsonPart {...props} beside={beside} />;
    default:
      throw new Error(`no such field: ${String(field satisfies never)}`);
  }
}

function Small({ edit, path, act, run }: { edit: Edit; path: Path; act: string; run: () => void }) {
  const name = nameOf(path);
  return (
    <button type="button" class="quiet small" disabled={edit.disabled} aria-label={`${act}: ${name}`} onClick={run}>
      {act}
    </button>
  );
}

function Absent({ edit, field, path, presence }: PartProps) {
  const problem = edit.problems.get(pathText(path));
  return (
    <div class="field">
      <div class="row">
        <span class="part-name">{labelOf(field, path)}</span>
        <span class="soft">{presence === 'required' ? 'missing' : 'not given'}</span>
        <Small {...{ edit, path }} act="Add" run={() => edit.set(path, firstValue(field))} />
      </div>
      {problem && <p class="field-error">{problem}</p>}
      {field.description && <p class="field-hint">{field.description}</p>}
    </div>
  );
}

function Null({ edit, field, path, presence }: PartProps) {
  const problem = edit.problems.get(pathText(path));
  return (
    <div class="field">
      <div class="row">
        <span class="part-name">{labelOf(field, path)}</span>
        <code>null</code>
        <Small {...{ edit, path }} act="Give a value" run={() => edit.set(path, firstValue(field) ?? '')} />
        {presence === 'optional' && <Small {...{ edit, path }} act="Leave out" run={() => edit.remove(path)} />}
      </div>
      {problem && <p class="field-error">{problem}</p>}
    </div>
  );
}

type With<K extends FormField['kind'], V> = Omit<PartProps, 'field' | 'value'> & {
  readonly field: Extract<FormField, { kind: K }>;
  readonly value: V;
  readonly beside: ComponentChildren;
};

function ObjectPart({ edit, field, value, path, beside }: With<'object', Readonly<Record<string, unknown>>>) {
  const known = new Set(field.properties.map(({ name }) => name));
  const others = Object.keys(value).filter((name) => !known.has(name));
  const parts = (
    <>
      {field.properties.map(({ name, required, field: each }) => (
        <Part
          key={name}
          {...{ edit, field: each, path: [...path, name] }}
          value={value[name]}
          presence={required ? 'required' : 'optional'}
        />
      ))}
      {others.map((name) => (
        <Part
          key={name}
          {...{ edit, path: [...path, name] }}
          field={{ ...jsonField, label: name, description: field.open ? undefined : 'The tool does not know this.' }}
          value={value[name]}
          presence="optional"
        />
      ))}
    </>
  );
  if (path.length === 0) return <div class="value-form">{parts}</div>;
  return <Group {...{ edit, field, path, beside }}>{parts}</Group>;
}

const jsonField: FormField = { kind: 'json', label: '', description: undefined, nullable: false, fallback: undefined };

function ListPart({ edit, field, value, path, beside }: With<'list', readonly unknown[]>) {
  return (
    <Group {...{ edit, field, path, beside }} hint={field.hint}>
      {value.map((item, at) => (
        <Part
          key={at}
          {...{ edit, path: [...path, at] }}
          field={field.item.label === '' ? { ...field.item, label: `${at + 1}` } : field.item}
          value={item}
          presence="item"
        />
      ))}
      <Small
        {...{ edit, path }}
        act="Add an item"
        run={() => edit.set([...path, value.length], firstValue(field.item))}
      />
    </Group>
  );
}

function Group({
  edit,
  field,
  path,
  beside,
  hint,
  children,
}: Pick<PartProps, 'edit' | 'field' | 'path'> & {
  beside: ComponentChildren;
  hint?: string | undefined;
  children: ComponentChildren;
}) {
  const problem = edit.problems.get(pathText(path));
  return (
    <fieldset class="value-group">
      <legend>{labelOf(field, path)}</legend>
      {(field.description ?? hint) && <p class="field-hint">{[field.description, hint].filter(Boolean).join(' · ')}</p>}
      {problem && <p class="field-error">{problem}</p>}
      {children}
      <div class="row">{beside}</div>
    </fieldset>
  );
}

function Leaf({
  edit,
  field,
  path,
  beside,
  hint,
  children,
}: Pick<PartProps, 'edit' | 'field' | 'path'> & {
  beside: ComponentChildren;
  hint?: string | undefined;
  children: (control: { id: string; 'aria-describedby': string; 'aria-invalid': boolean }) => ComponentChildren;
}) {
  return (
    <div class="value-leaf">
      <Field
        label={labelOf(field, path)}
        hint={[field.description, hint].filter(Boolean).join(' · ')}
        error={edit.problems.get(pathText(path))}
      >
        {children}
      </Field>
      <div class="row">{beside}</div>
    </div>
  );
}

const tallText = 80;

function TextPart({ edit, field, value, path, beside }: With<'text', string>) {
  const isTall = field.long || value.length > tallText || value.includes('\n');
  const onInput = ({ currentTarget }: { currentTarget: { value: string } }) => edit.set(path, currentTarget.value);
  return (
    <Leaf {...{ edit, field, path, beside }} hint={field.hint}>
      {(control) =>
        isTall ? (
          <textarea {...control} rows={4} value={value} disabled={edit.disabled} onInput={onInput} />
        ) : (
          <input {...control} type="text" autoComplete="off" value={value} disabled={edit.disabled} onInput={onInput} />
        )
      }
    </Leaf>
  );
}

function FlagPart({
  edit,
  field,
  value,
  path,
  beside,
}: Omit<PartProps, 'value'> & { value: boolean; beside: ComponentChildren }) {
  return (
    <Leaf {...{ edit, field, path, beside }}>
      {(control) => (
        <select
          {...control}
          value={String(value)}
          disabled={edit.disabled}
          onChange={({ currentTarget }) => edit.set(path, currentTarget.value === 'true')}
        >
          <option value="true">yes</option>
          <option value="false">no</option>
        </select>
      )}
    </Leaf>
  );
}

function ChoicePart({ edit, field, value, path, beside }: With<'choice', unknown>) {
  const now = field.choices.findIndex((choice) => JSON.stringify(choice) === JSON.stringify(value));
  return (
    <Leaf {...{ edit, field, path, beside }}>
      {(control) => (
        <select
          {...control}
          value={String(now)}
          disabled={edit.disabled}
          onChange={({ currentTarget }) => edit.set(path, field.choices[Number(currentTarget.value)])}
        >
          {now < 0 && (
            <option value="-1" disabled>
              {inShort(value)}: none of the choices
            </option>
          )}
          {field.choices.map((choice, at) => (
            <option key={at} value={String(at)}>
              {inShort(choice)}
            </option>
          ))}
        </select>
      )}
    </Leaf>
  );
}

/** A value that is typed as text and read: what is no value yet stays in the field, and reaches nothing else. */
function TypedPart({
  edit,
  field,
  value,
  path,
  beside,
  hint,
  read,
}: PartProps & { beside: ComponentChildren; hint?: string | undefined; read: (text: string) => Typed }) {
  const shown = typeof value === 'number' ? String(value) : JSON.stringify(value);
  // A number as it was typed, where it is written otherwise: `5.0`.
  const [typed, setTyped] = useState({ text: shown, of: shown });
  const broken = edit.broken.get(pathText(path));
  const text = broken?.text ?? (typed.of === shown ? typed.text : shown);
  return (
    <Leaf {...{ edit, field, path, beside, hint }}>
      {(control) => (
        <input
          {...control}
          type="text"
          inputMode="decimal"
          autoComplete="off"
          value={text}
          disabled={edit.disabled}
          onInput={({ currentTarget }) => {
            const now = read(currentTarget.value);
            edit.onBroken(path, now.ok ? undefined : { text: currentTarget.value, problem: now.problem });
            if (!now.ok) return;
            setTyped({ text: currentTarget.value, of: String(now.value) });
            edit.set(path, now.value);
          }}
        />
      )}
    </Leaf>
  );
}

function JsonPart({ edit, field, value, path, beside }: PartProps & { beside: ComponentChildren }) {
  return (
    <div class="value-leaf">
      <JsonText
        label={labelOf(field, path)}
        hint={[field.description, 'as JSON'].filter(Boolean).join(' · ')}
        value={value}
        disabled={edit.disabled}
        problem={edit.problems.get(pathText(path))}
        broken={edit.broken.get(pathText(path))}
        onBroken={(what) => edit.onBroken(path, what)}
        onValue={(next) => edit.set(path, next)}
      />
      <div class="row">{beside}</div>
    </div>
  );
}

/** A value as JSON in a text field. */
export function JsonText({
  label,
  hint,
  value,
  rows = 3,
  disabled,
  problem,
  broken,
  onBroken,
  onValue,
}: {
  label: string;
  hint?: string;
  value: unknown;
  rows?: number;
  disabled: boolean;
  problem?: string | undefined;
  broken: Broken | undefined;
  onBroken: (what: Omit<Broken, 'at'> | undefined) => void;
  onValue: (value: unknown) => void;
}) {
  const shown = JSON.stringify(value, null, 2);
  const [typed, setTyped] = useState({ text: shown, of: shown });
  const text = broken?.text ?? (typed.of === shown ? typed.text : shown);
  return (
    <Field label={label} hint={hint} error={broken?.problem ?? problem}>
      {(control) => (
        <textarea
          {...control}
          class="mono"
          spellcheck={false}
          rows={Math.max(rows, Math.min(16, text.split('\n').length))}
          value={text}
          disabled={disabled}
          onInput={({ currentTarget }) => {
            const now = readJson(currentTarget.value);
            onBroken(now.ok ? undefined : { text: currentTarget.value, problem: now.problem });
            if (!now.ok) return;
            setTyped({ text: currentTarget.value, of: JSON.stringify(now.value, null, 2) });
            onValue(now.value);
          }}
        />
      )}
    </Field>
  );
}

function labelOf(field: FormField, path: Path): string {
  return field.label || nameOf(path);
}

function nameOf(path: Path): string {
  return pathText(path) || 'arguments';
}

function inShort(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}
