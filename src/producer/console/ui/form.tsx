import type { ComponentChildren } from 'preact';
import { useId } from 'preact/hooks';

export interface FieldProps {
  readonly label: string;
  readonly hint?: ComponentChildren;
  /** What is wrong with the value. */
  readonly error?: string | undefined;
  /** Gets what the control needs to belong to its label, hint and error. */
  readonly children: (control: {
    id: string;
    'aria-describedby': string;
    'aria-invalid': boolean;
  }) => ComponentChildren;
}

/** A labelled control. */
export function Field({ label, hint, error, children }: FieldProps) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children({ id, 'aria-describedby': `${id}-hint`, 'aria-invalid': error !== undefined })}
      <p id={`${id}-hint`} class={error ? 'field-error' : 'field-hint'}>
        {error ?? hint}
      </p>
    </div>
  );
}

export interface TextProps {
  readonly label: string;
  readonly value: string;
  readonly onValue: (value: string) => void;
  readonly hint?: ComponentChildren;
  readonly error?: string | undefined;
  readonly placeholder?: string;
  readonly required?: boolean;
  readonly disabled?: boolean;
}

export function TextField({
  type = 'text',
  inputMode,
  autoComplete = 'off',
  ...props
}: TextProps & {
  type?: 'text' | 'password' | 'number' | 'url' | 'datetime-local';
  inputMode?: 'text' | 'numeric' | 'decimal';
  autoComplete?: string;
}) {
  const { label, hint, error, value, onValue, placeholder, required, disabled } = props;
  return (
    <Field label={label} hint={hint} error={error}>
      {(control) => (
        <input
          {...control}
          {...({ type } as { type: 'text' })}
          {...{ inputMode, autoComplete, value, placeholder, required, disabled }}
          onInput={({ currentTarget }) => onValue(currentTarget.value)}
        />
      )}
    </Field>
  );
}

export function TextArea({ rows = 4, ...props }: TextProps & { rows?: number }) {
  const { label, hint, error, value, onValue, placeholder, required, disabled } = props;
  return (
    <Field label={label} hint={hint} error={error}>
      {(control) => (
        <textarea
          {...control}
          {...{ rows, value, placeholder, required, disabled }}
          onInput={({ currentTarget }) => onValue(currentTarget.value)}
        />
      )}
    </Field>
  );
}

export interface Choice {
  readonly value: string;
  readonly label?: string;
}

export function SelectField({
  choices,
  ...props
}: Omit<TextProps, 'placeholder'> & { choices: readonly (Choice | string)[] }) {
  const { label, hint, error, value, onValue, required, disabled } = props;
  return (
    <Field label={label} hint={hint} error={error}>
      {(control) => (
        <select
          {...control}
          {...{ value, required, disabled }}
          onChange={({ currentTarget }) => onValue(currentTarget.value)}
        >
          {choices.map((choice) => {
            const { value: each, label: text = each } = typeof choice === 'string' ? { value: choice } : choice;
            return (
              <option key={each} value={each}>
                {text}
              </option>
            );
          })}
        </select>
      )}
    </Field>
  );
}

interface AgentFieldProps extends Pick<TextProps, 'value' | 'onValue' | 'hint' | 'error'> {
  readonly agents: readonly { readonly id: string; readonly name?: string | undefined }[];
  /** It may be left out. */
  readonly optional?: boolean;
}

/**
 * A choice among the agents that live workers have; where there are several, none before it is chosen. Where no worker has said
 * which those are, the name is typed.
 */
export function AgentField({ agents, hint, optional = false, ...field }: AgentFieldProps) {
  if (agents.length === 0)
    return <TextField label="Agent" hint="No worker has said which agents it has: is one running?" {...field} />;
  const known = agents.map(({ id, name }) => ({ value: id, label: name && name !== id ? `${name} (${id})` : id }));
  const isKnown = field.value === '' || agents.some(({ id }) => id === field.value);
  const none = { value: '', label: optional ? 'none' : 'Choose an agent' };
  const choices = [none, ...known, ...(isKnown ? [] : [{ value: field.value }])];
  return <SelectField label="Agent" {...{ choices, hint }} {...field} required={!optional} />;
}

/** A box to tick, with its label beside it. */
export function CheckField({
  label,
  checked,
  onChecked,
  disabled = false,
}: {
  label: ComponentChildren;
  checked: boolean;
  onChecked: (checked: boolean) => void;
  disabled?: boolean;
}) {
  return (
    <label class="check">
      <input
        type="checkbox"
        checked={checked}
        disabled={disabled}
        onChange={({ currentTarget }) => onChecked(currentTarget.checked)}
      />
      {label}
    </label>
  );
}

/** A form that is sent with Enter, from long texts with Ctrl+Enter, or with its button, and never by the browser itself. */
export function Form({ onSubmit, children }: { onSubmit: () => unknown; children: ComponentChildren }) {
  return (
    <form
      class="form"
      onSubmit={(event) => {
        event.preventDefault();
        void onSubmit();
      }}
      onKeyDown={(event) => {
        if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return;
        event.preventDefault();
        const cannot = event.currentTarget.querySelector('button[type=submit]:disabled');
        if (!cannot) event.currentTarget.requestSubmit();
      }}
    >
      {children}
    </form>
  );
}
