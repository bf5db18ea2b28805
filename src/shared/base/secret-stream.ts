/** A text of which the first `covered` characters belong to a secret whose mark has been written already. */
export interface Rest {
  readonly text: string;
  readonly covered: number;
}

type Span = [from: number, to: number];

/** Finds texts of three characters and more in longer ones, in one pass however many there are. */
export class SecretForms {
  /** One for each number that some text starts with: it rules out most characters of a longer text at once. */
  readonly #starts = new Uint8Array(startNumbers);
  readonly #byStart: ReadonlyMap<number, readonly string[]>;
  readonly #byFirst: ReadonlyMap<string, readonly string[]>;
  readonly #longest: number;
  /** Undefined: they are so many that to look for each costs more than one pass for all. */
  readonly #few: readonly string[] | undefined;

  constructor(forms: readonly string[]) {
    this.#few = forms.length <= maxFew ? forms : undefined;
    this.#longest = Math.max(0, ...forms.map((form) => form.length));
    this.#byStart = Map.groupBy(forms, (form) => startAt(form, 0));
    this.#byFirst = Map.groupBy(forms, (form) => form.charAt(0));
    for (const start of this.#byStart.keys()) this.#starts[start] = 1;
  }

  /** The first `end` characters with a mark for each secret in them, and the rest. What reaches over the end is marked. */
  mask({ text, covered }: Rest, end: number, mark: string): { readonly clean: string; readonly rest: Rest } {
    // Mostly there is nothing to mark, and the search for one text is many times as fast as a pass for all.
    if (covered === 0 && end === text.length && this.#few?.every((form) => !text.includes(form)))
      return { clean: text, rest: { text: '', covered: 0 } };
    let clean = '';
    let at = 0;
    for (const [from, to] of this.#spans(text, covered)) {
      const isMarked = covered > 0 && from === 0;
      if (from >= end && !isMarked) break;
      clean += text.slice(at, from);
      if (!isMarked) clean += mark;
      at = to;
    }
    return { clean: clean + text.slice(at, end), rest: { text: text.slice(end), covered: Math.max(0, at - end) } };
  }

  /** Where the text begins that may be the first part of a secret; its length, when there is none. */
  openFrom(text: string): number {
    for (let at = Math.max(0, text.length - this.#longest + 1); at < text.length; at++) {
      const open = text.slice(at);
      const couldBe = this.#byFirst.get(open.charAt(0)) ?? [];
      if (couldBe.some((form) => form.length > open.length && form.startsWith(open))) return at;
    }
    return text.length;
  }

  /** What is found, in order; what overlaps is one. */
  #spans(text: string, covered: number): Span[] {
    const found: Span[] = covered > 0 ? [[0, covered]] : [];
    if (this.#byStart.size === 0) return found;
    for (let at = 0; at + 2 < text.length; at++) {
      const start = startAt(text, at);
      if (this.#starts[start] === 0) continue;
      for (const form of this.#byStart.get(start) ?? []) {
        if (text.startsWith(form, at)) join(found, at, at + form.length);
      }
    }
    return found;
  }
}

const startNumbers = 2 ** 16;
const maxFew = 64;

/** A number for three characters, the same for the same ones. */
function startAt(text: string, at: number): number {
  const mixed = (text.charCodeAt(at) * 31 + text.charCodeAt(at + 1)) * 31 + text.charCodeAt(at + 2);
  return mixed % startNumbers;
}

/** Adds a span that begins no earlier than the last one, to that one when they overlap. */
function join(spans: Span[], from: number, to: number): void {
  const last = spans.at(-1);
  if (last && from < last[1]) last[1] = Math.max(last[1], to);
  else spans.push([from, to]);
}

/**
 * A text that comes in pieces, without secrets. What may be the first part of one is kept until more has come, which
 * is never longer than the longest secret.
 */
export class SecretStream {
  readonly #forms: () => SecretForms;
  readonly #mark: string;
  #rest: Rest = { text: '', covered: 0 };

  constructor(forms: () => SecretForms, mark: string) {
    this.#forms = forms;
    this.#mark = mark;
  }

  /** What can be shown by now. */
  push(piece: string): string {
    const text = this.#rest.text + piece;
    return this.#take(text, this.#forms().openFrom(text));
  }

  /** What was kept, now that nothing follows. */
  end(): string {
    return this.#take(this.#rest.text, this.#rest.text.length);
  }

  #take(text: string, end: number): string {
    const { clean, rest } = this.#forms().mask({ text, covered: this.#rest.covered }, end, this.#mark);
    this.#rest = rest;
    return clean;
  }
}
