import { decodingsOf } from './decode.ts';
import { formOf, isEdge, joined, stringOf, type Form } from './normalise.ts';
import { numbersIn } from './numbers.ts';

/** A text of a run in the forms in which it is searched, each made when it is needed first. */
export class TrackedText {
  readonly text: string;
  #views: readonly string[] | undefined;
  #form: Form | undefined;
  #plain: string | undefined;
  #strict: string | undefined;
  #numbers: ReadonlySet<string> | undefined;
  #isCut: boolean;
  /** A model reads more in it than this process can. */
  readonly isOpaque: boolean;

  constructor(text: string, { isOpaque = false }: { readonly isOpaque?: boolean } = {}) {
    this.text = withoutMarkers(text);
    this.isOpaque = isOpaque;
    this.#isCut = isOpaque;
  }

  /** The text, and what it stands for once it is decoded. */
  get views(): readonly string[] {
    if (!this.#views) {
      const { texts, cut } = decodingsOf(this.text);
      this.#views = [this.text, ...texts];
      this.#isCut ||= cut;
    }
    return this.#views;
  }

  /** Of all views, one after the other. `cut`: the text is longer than what is followed of it. */
  get form(): Form {
    this.#form ??= joined(this.views.map((view) => formOf(view)));
    return this.#isCut ? { ...this.#form, cut: true } : this.#form;
  }

  /** The units of {@link form} as a string. */
  get plain(): string {
    this.#plain ??= stringOf(this.form.units);
    return this.#plain;
  }

  /** Lower case, white space as one space; every other sign and letter as it is. */
  get strict(): string {
    this.#strict ??= this.views.map(strictOf).join('\n');
    return this.#strict;
  }

  /** Every number in it, in each way to read it. */
  get numbers(): ReadonlySet<string> {
    this.#numbers ??= new Set(this.views.flatMap(numbersIn));
    return this.#numbers;
  }

  /** Do these units stand there by themselves? `loosely`: also with a letter before a digit, or behind one. */
  hasToken(plain: string, loosely: boolean): boolean {
    if (plain === '') return false;
    for (let at = this.plain.indexOf(plain); at !== -1; at = this.plain.indexOf(plain, at + 1)) {
      if (isEdge(this.form, at, loosely) && isEdge(this.form, at + plain.length, loosely)) return true;
    }
    return false;
  }
}

/** A text in the form of {@link TrackedText.strict}. */
export function strictOf(text: string): string {
  return text.normalize('NFC').toLowerCase().replaceAll(/\s+/g, ' ').trim();
}

const marker = '<<<(?:END_)?UNTRUSTED_CONTENT trust="[a-z-]{1,32}" tool="[^"\\n]{0,128}" id="[\\w-]{1,64}">>>';
const first = new RegExp(`^${marker}\\n`);
const last = new RegExp(`\\n${marker}$`);

/** Without the two lines that the sanitiser puts around a text: they are ours. */
function withoutMarkers(text: string): string {
  return first.test(text) && last.test(text) ? text.replace(first, '').replace(last, '') : text;
}

const kept = new WeakMap<object, { readonly text: string; readonly tracked: TrackedText }>();

/** The same tracked text for the same object, for as long as that lives: a message is read once, however often it is judged. */
export function trackedFor(key: object, text: string): TrackedText {
  const known = kept.get(key);
  if (known?.text === text) return known.tracked;
  const tracked = new TrackedText(text);
  kept.set(key, { text, tracked });
  return tracked;
}

/** What a picture or a PDF says: there may be anything in it. */
export const opaqueText = new TrackedText('', { isOpaque: true });
