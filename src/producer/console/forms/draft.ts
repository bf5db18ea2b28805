import { checkValue, type Problems } from './check-value.ts';
import { changesBetween, maskedIn, withAt, type Change } from './edit-value.ts';
import { pathText, type Path } from './schema-form.ts';

/** What was typed and is no value (yet), and why. */
export interface Broken {
  /** Where; empty: all of it, as JSON. */
  readonly at: Path;
  readonly text: string;
  readonly problem: string;
}

/** Arguments while they are edited. */
export interface Draft {
  readonly original: unknown;
  /** What was a value last. Where something broken is typed, that counts. */
  readonly value: unknown;
  /** Undefined: not known; a form is made from the arguments themselves. */
  readonly schema: unknown;
  /** By path, written with dots. */
  readonly broken: ReadonlyMap<string, Broken>;
  /** What the producer refused, until something changes. */
  readonly refused: Problems;
}

export function draftOf(original: unknown, schema: unknown): Draft {
  return { original, value: original, schema, broken: new Map(), refused: new Map() };
}

/** Are there other arguments to send? */
export function isEdited({ original, value }: Draft): boolean {
  return changesBetween(original, value).length > 0;
}

/** Is there anything to take back? */
export function isTouched(draft: Draft): boolean {
  return draft.broken.size > 0 || isEdited(draft);
}

/** What was typed at a path is no value; undefined: it is one again. Of what was broken inside nothing is left. */
export function typedBroken(draft: Draft, at: Path, what: Omit<Broken, 'at'> | undefined): Draft {
  const path = pathText(at);
  const others = [...draft.broken].filter(([other]) => !isWithin(other, path));
  return { ...draft, broken: new Map([...others, ...(what ? [[path, { at, ...what }] as const] : [])]) };
}

/** The same as one value, to be edited as JSON: what is broken stands in it as it was typed. */
export function asWholeJson(draft: Draft): Draft {
  const value = [...draft.broken.values()].reduce((whole, { at, text }) => withAt(whole, at, text), draft.value);
  return { ...draft, value, broken: new Map() };
}

export interface ShownChange extends Change {
  /** `after` is what was typed, and no value. */
  readonly isBroken: boolean;
}

/** What a person has changed so far. Nothing, while all of it is no JSON. */
export function changesIn({ original, value, broken }: Draft): readonly ShownChange[] {
  if (broken.has('')) return [];
  const typed = [...broken.keys()];
  const kept = changesBetween(original, value).filter(({ path }) => !typed.some((at) => isWithin(path, at)));
  return [
    ...kept.map((change) => ({ ...change, isBroken: false })),
    ...[...broken].map(([path, { at, text }]) => ({
      path,
      before: shownAt(original, at),
      after: text,
      isBroken: true,
    })),
  ];
}

/** What hinders that this draft is sent, by path. Arguments without a change are not checked: they are the model's. */
export function problemsIn(draft: Draft): Problems {
  const broken = [...draft.broken].map(([path, { problem }]) => [path, problem] as const);
  if (draft.broken.has('') || !isEdited(draft)) return new Map(broken);
  const masked = maskedIn(draft.value).map(
    (path) => [path, 'is masked here: type the whole value, or take back your changes'] as const,
  );
  const found = [...draft.refused, ...checkValue(draft.schema, draft.value), ...masked];
  const others = found.filter(([path]) => !broken.some(([at]) => isWithin(path, at)));
  return new Map([...others, ...broken]);
}

function isWithin(path: string, outer: string): boolean {
  return outer === '' || path === outer || path.startsWith(`${outer}.`);
}

function shownAt(value: unknown, path: Path): string | undefined {
  let at = value;
  for (const part of path)
    at = typeof at === 'object' && at !== null ? (at as Readonly<Record<string | number, unknown>>)[part] : undefined;
  return at === undefined ? undefined : JSON.stringify(at);
}
