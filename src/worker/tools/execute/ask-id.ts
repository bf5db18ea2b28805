import { sha256 } from '../../../shared/base/ids.ts';
import { clip } from '../../../shared/base/text.ts';
import { maxCallIdChars } from '../../../shared/contract/control.ts';

/** Leaves room for the place of the call. */
const maxAskedChars = maxCallIdChars - 32;

/** The name under which people decide about a call. Providers give longer ids than a decision may name. */
export function askedAs(id: string): string {
  return id.length <= maxAskedChars ? id : `${clip(id, 64)}:${sha256(id).slice(0, 32)}`;
}

/** The same where that name was given before. `index` is the position of the call among those of its step. */
export function askedAt(id: string, step: number, index: number): string {
  return `${askedAs(id)}:s${step}t${index}`;
}

/** Is this one of the names under which people may have decided about the call of this step? */
export function isAskAbout(askId: string, id: string, step: number): boolean {
  const own = askedAs(id);
  return askId === own || askId.startsWith(`${own}:s${step}t`);
}
