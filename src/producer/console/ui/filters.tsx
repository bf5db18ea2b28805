import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { useKeys } from '../keys.ts';
import type { Choice } from './form.tsx';
import { useUrlState } from './url-state.ts';

const typingMs = 250;

/** The row above a list that narrows it down. Everything in it is bound to the URL. */
export function Filters({ children, names }: { children: ComponentChildren; names: readonly string[] }) {
  const [query, setUrl] = useUrlState();
  const used = names.filter((name) => query[name]);
  return (
    <div class="filters" role="search">
      {children}
      {used.length > 0 && (
        <button
          type="button"
          class="quiet"
          onClick={() => setUrl(Object.fromEntries(names.map((name) => [name, undefined])))}
        >
          Clear {used.length === 1 ? 'the filter' : `${used.length} filters`}
        </button>
      )}
    </div>
  );
}

interface FilterProps {
  readonly name: string;
  readonly label: string;
}

/** A choice of one, or of any (which is the first). */
export function SelectFilter({ name, label, choices }: FilterProps & { choices: readonly (Choice | string)[] }) {
  const [query, setUrl] = useUrlState();
  const id = useId();
  const value = query[name] ?? '';
  const all = choices.map((choice) => (typeof choice === 'string' ? { value: choice } : choice));
  // A value of the URL that is not among the choices (yet) is shown all the same.
  const shown = value === '' || all.some((choice) => choice.value === value) ? all : [...all, { value }];
  return (
    <div class="filter">
      <label for={id}>{label}</label>
      <select id={id} value={value} onChange={({ currentTarget }) => setUrl({ [name]: currentTarget.value })}>
        <option value="">any</option>
        {shown.map((choice) => (
          <option key={choice.value} value={choice.value}>
            {choice.label ?? choice.value.replaceAll('_', ' ')}
          </option>
        ))}
      </select>
    </div>
  );
}

export interface TextFilterProps extends FilterProps {
  readonly placeholder?: string;
  readonly type?: 'text' | 'search' | 'datetime-local' | 'number';
  /** The key `/` leads here. One of them in a view. */
  readonly search?: boolean;
  /** What is wrong with what was typed. */
  readonly error?: string | undefined;
}

/** Typed text, which reaches the URL a moment after the last key. */
export function TextFilter({ name, label, placeholder, type = 'text', search = false, error }: TextFilterProps) {
  const [query, setUrl] = useUrlState();
  const id = useId();
  const fromUrl = query[name] ?? '';
  const [typed, setTyped] = useState(fromUrl);
  const input = useRef<HTMLInputElement>(null);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => {
    if (document.activeElement !== input.current || fromUrl === '') setTyped(fromUrl);
  }, [fromUrl]);
  useEffect(() => () => clearTimeout(timer.current), []);
  useKeys(search ? { '/': { what: `Go to the field "${label}"`, run: () => input.current?.focus() } } : {});
  const send = (value: string) => {
    clearTimeout(timer.current);
    setUrl({ [name]: value.trim() });
  };
  return (
    <div class="filter">
      <label for={id}>{label}</label>
      <input
        ref={input}
        {...{ id, placeholder, value: typed }}
        {...({ type } as { type: 'text' })}
        spellcheck={false}
        autoComplete="off"
        aria-invalid={error !== undefined}
        aria-describedby={error === undefined ? undefined : `${id}-error`}
        onInput={({ currentTarget: { value } }) => {
          setTyped(value);
          clearTimeout(timer.current);
          timer.current = setTimeout(() => send(value), typingMs);
        }}
        onKeyDown={(event) => {
          if (event.key === 'Enter') send(event.currentTarget.value);
          if (event.key === 'Escape') event.currentTarget.blur();
        }}
      />
      {error !== undefined && (
        <p id={`${id}-error`} class="field-error">
          {error}
        </p>
      )}
    </div>
  );
}
