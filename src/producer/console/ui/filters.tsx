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

/** Filters behind a button where the page is narrow; elsewhere there is no button, and they are always there. */
export function FoldedFilters({
  names,
  isOpenAtFirst,
  children,
}: {
  names: readonly string[];
  isOpenAtFirst: boolean;
  children: ComponentChildren;
}) {
  const [query] = useUrlState();
  const [isOpen, setOpen] = useState(isOpenAtFirst);
  const id = useId();
  const used = names.filter((name) => query[name]).length;
  return (
    <>
      <button
        type="button"
        class="fold-button"
        aria-expanded={isOpen}
        aria-controls={id}
        onClick={() => setOpen(!isOpen)}
      >
        <span aria-hidden="true">{isOpen ? '▾' : '▸'}</span> {used === 0 ? 'Filters' : `Filters (${used})`}
      </button>
      <div id={id} class={isOpen ? 'fold' : 'fold folded'}>
        {children}
      </div>
    </>
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
  /** How the value of the URL stands in the field, and the other way round. Default: as it is. */
  readonly format?: { readonly shown: (kept: string) => string; readonly kept: (shown: string) => string };
  /** The key `/` leads here. One of them in a view. */
  readonly search?: boolean;
  /** What is wrong with what was typed. */
  readonly error?: string | undefined;
}

/** Typed text, which reaches the URL a moment after the last key. */
export function TextFilter(props: TextFilterProps) {
  const { name, label, placeholder, type = 'text', format = asItIs, search = false, error } = props;
  const [query, setUrl] = useUrlState();
  const id = useId();
  const fromUrl = format.shown(query[name] ?? '');
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
    setUrl({ [name]: format.kept(value.trim()) });
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

const asItIs = { shown: (kept: string) => kept, kept: (shown: string) => shown };

/** A moment: in the field by the clock of the browser, in the URL in UTC, so that it is the same moment for each reader. */
export function TimeFilter(props: FilterProps) {
  return <TextFilter {...props} type="datetime-local" format={{ shown: localTimeOf, kept: utcOf }} />;
}

function utcOf(localTime: string): string {
  const date = new Date(localTime);
  return Number.isNaN(date.getTime()) ? '' : date.toISOString();
}

/** As a field has it, to the minute. A time without a zone is one of the browser. */
function localTimeOf(text: string): string {
  const date = new Date(text);
  if (Number.isNaN(date.getTime())) return '';
  const local = new Date(date.getTime() - date.getTimezoneOffset() * 60_000);
  return local.toISOString().slice(0, 16);
}
