import { checkValue, type Problems } from './check-value.ts';
import { changesBetween, maskedIn } from './edit-value.ts';

/** Arguments while they are edited. */
export interface Draft {
  readonly original: unknown;
  readonly value: unknown;
  /** Undefined: not known; a form is made from the arguments themselves. */
  readonly schema: unknown;
  /** What was typed and is no value, by path. */
  readonly broken: Problems;
  /** What the producer refused, until something changes. */
  readonly refused: Problems;
}

export function draftOf(original: unknown, schema: unknown): Draft {
  return { original, value: original, schema, broken: new Map(), refused: new Map() };
}

export function isEdited({ original, value }: Draft): boolean {
  return changesBetween(original, value).length > 0;
}

/** What hinders that this draft is sent, by path. Arguments without a change are not checked: they are the model's. */
export function problemsIn(draft: Draft): Problems {
  if (!isEdited(draft)) return draft.broken;
  const masked = maskedIn(draft.value).map(
    (path) => [path, 'is masked here: type the whole value, or take back your changes'] as const,
  );
  return new Map([...draft.refused, ...checkValue(draft.schema, draft.value), ...masked, ...draft.broken]);
}
