import { clip } from '../../../shared/base/text.ts';
import { foldCharacter } from '../folded-text.ts';
import { codesOf } from './codes.ts';

/** The most units of one text that are followed. */
export const maxUnits = 262_144;
/** Of a text with more characters than this only the beginning is read at all. */
const maxChars = 4 * maxUnits;

/** Between two units, or at an end: a sign, a space, or a script that writes words without spaces. */
const hardEdge = 1;
/** Between a letter and a digit. */
const softEdge = 2;

/**
 * A text as the guard compares it: its letters and digits, lower case, look-alikes as the letters they look like. One unit for
 * each, three for a character that is a syllable or a word (Chinese, Japanese, Korean), so that the number of units is how
 * much a passage weighs. `0` stands between pieces that do not belong together.
 */
export interface Form {
  readonly units: Uint16Array;
  /** For each unit, and for the end: what lies before it. */
  readonly edges: Uint8Array;
  /** For each unit: where its character begins in the text. */
  readonly starts: Uint32Array;
  /** There is more of the text than the units. */
  readonly cut: boolean;
}

/** Never throws, whatever the text holds; at most `limit` units. */
export function formOf(text: string, limit = maxUnits): Form {
  const { form, isMore } = written(text, limit);
  return form.finish(isMore);
}

/** The units alone of what {@link formOf} makes of a text. */
export function unitsIn(text: string, limit = maxUnits): Uint16Array {
  return written(text, limit).form.units;
}

function written(text: string, limit: number): { readonly form: FormWriter; readonly isMore: boolean } {
  const beginning = clip(text, maxChars);
  const isNarrow = isPlain(beginning);
  const read = isNarrow ? beginning : beginning.normalize('NFC');
  const most = isNarrow ? read.length : read.length * wideUnits + 1;
  const form = new FormWriter(Math.min(limit, most));
  const codes = codesOf(read);
  let at = 0;
  while (at < read.length && !form.isFull) {
    at = form.addPlain(codes, at);
    if (at >= read.length || form.isFull) break;
    const code = read.codePointAt(at) ?? 0;
    form.add(code, at);
    at += code > 0xffff ? 2 : 1;
  }
  return { form, isMore: at < read.length || text.length > maxChars };
}

/** The same text with each character as one code point, where there is one: places of a form are places in this. */
export function composed(text: string): string {
  return isPlain(text) ? text : text.normalize('NFC');
}

function isPlain(text: string): boolean {
  // eslint-disable-next-line no-control-regex
  return !/[^\u0000-\u007f]/.test(text);
}

/** Letters and digits of a text in their one form, as a string to look for. */
export function plainOf(text: string): string {
  return stringOf(unitsIn(text));
}

/** Several forms as one: their units never touch. */
export function joined(forms: readonly Form[]): Form {
  const [only] = forms;
  if (only && forms.length === 1) return only;
  const size = forms.reduce((sum, { units }) => sum + units.length + 1, 0);
  const units = new Uint16Array(size);
  const edges = new Uint8Array(size + 1).fill(hardEdge, 0, 1);
  const starts = new Uint32Array(size);
  let at = 0;
  for (const form of forms) {
    units.set(form.units, at);
    edges.set(form.edges, at);
    starts.set(form.starts, at);
    at += form.units.length + 1;
    edges[at] = hardEdge;
  }
  return { units, edges, starts, cut: forms.some(({ cut }) => cut) };
}

/** The units as a string, one UTF-16 unit each. */
export function stringOf(units: Uint16Array): string {
  return Buffer.from(units.buffer, units.byteOffset, units.byteLength).toString('utf16le');
}

/** The units that {@link stringOf} made a string of. */
export function unitsOf(plain: string): Uint16Array {
  return Uint16Array.from({ length: plain.length }, (_, at) => plain.charCodeAt(at));
}

/** Does a word begin, or end, before this unit? `loosely`: also between a letter and a digit. */
export function isEdge({ edges }: Form, at: number, loosely: boolean): boolean {
  const edge = edges[at] ?? hardEdge;
  return loosely ? edge !== 0 : (edge & hardEdge) !== 0;
}

const wideUnits = 3;

/** Room for short texts, which most are: what a writer puts there is copied before the next one begins. */
const room = { units: new Uint16Array(4_096), edges: new Uint8Array(4_097), starts: new Uint32Array(4_096) };

class FormWriter {
  readonly #units: Uint16Array;
  readonly #edges: Uint8Array;
  readonly #starts: Uint32Array;
  readonly #limit: number;
  #length = 0;
  #edge = hardEdge;
  #before: Kind | undefined;

  constructor(limit: number) {
    const isShort = limit <= room.units.length;
    this.#limit = limit;
    this.#units = isShort ? room.units : new Uint16Array(limit);
    this.#edges = isShort ? room.edges : new Uint8Array(limit + 1);
    this.#starts = isShort ? room.starts : new Uint32Array(limit);
  }

  get isFull(): boolean {
    return this.#length >= this.#limit;
  }

  get units(): Uint16Array {
    return this.#units.slice(0, this.#length);
  }

  /** Adds plain characters from a place on, which most texts are made of; answers with the place of the first other one. */
  addPlain(codes: Uint16Array, from: number): number {
    const [units, edges, starts] = [this.#units, this.#edges, this.#starts];
    const [end, full] = [codes.length, this.#limit];
    let length = this.#length;
    let state = plainState(this.#before, this.#edge);
    let at = from;
    for (; at < end && length < full; at++) {
      const code = codes[at] as number;
      if (code >= 0x80) break;
      // Without branches: where words are mixed with digits none would be foreseen. A sign is written over by what follows.
      const kind = plainKinds[code] as number;
      const step = plainSteps[state * 3 + kind] as number;
      units[length] = plainUnits[code] as number;
      starts[length] = at;
      edges[length] = step & 3;
      length += (kind + 1) >> 1;
      state = step >> 2;
    }
    this.#length = length;
    this.#edge = state & hardEdge;
    this.#before = befores[state >> 1];
    return at;
  }

  add(code: number, at: number): void {
    const folded = isPlainWide(code) ? String.fromCodePoint(code) : foldCharacter(shownLetter(code));
    for (const character of folded) {
      const kind = kindOf(character);
      if (kind === 'sign') this.#edge = hardEdge;
      else for (let unit = 0; unit < character.length; unit++) this.#put(character.charCodeAt(unit), kind, at);
    }
  }

  #put(unit: number, kind: Kind, at: number): void {
    const before = this.#before;
    if (kind === 'wide' || kind === 'spaceless' || before === 'wide' || before === 'spaceless') this.#edge = hardEdge;
    else if (before !== undefined && before !== kind) this.#edge |= softEdge;
    this.#before = kind;
    for (let copy = 0; copy < (kind === 'wide' ? wideUnits : 1) && !this.isFull; copy++) {
      this.#units[this.#length] = unit;
      this.#starts[this.#length] = at;
      this.#edges[this.#length++] = copy === 0 ? this.#edge : 0;
    }
    this.#edge = 0;
  }

  finish(isMore: boolean): Form {
    this.#edges[this.#length] = hardEdge;
    // A copy where the room is wanted again, or where it saves much.
    const part = this.#units === room.units || this.#length * 2 < this.#limit ? 'slice' : 'subarray';
    return {
      units: this.#units[part](0, this.#length),
      edges: this.#edges[part](0, this.#length + 1),
      starts: this.#starts[part](0, this.#length),
      cut: isMore,
    };
  }
}

/** `wide`: a syllable or word in one character. `spaceless`: of a script that puts no spaces between words. */
type Kind = 'letter' | 'digit' | 'wide' | 'spaceless' | 'sign';

/** By code of a plain character: its unit, 0 for signs. */
const plainUnits = Uint8Array.from({ length: 0x80 }, (_, code) => {
  const character = String.fromCharCode(code).toLowerCase();
  return /[a-z0-9]/.test(character) ? character.charCodeAt(0) : 0;
});

/** By code of a plain character: 0 for signs, 1 for digits, 2 for letters. */
const plainKinds = plainUnits.map((unit) => (unit === 0 ? 0 : unit < 0x3a ? 1 : 2));

/** What may come before a plain character. A spaceless one counts as a wide one: there is an edge behind both. */
const befores = [undefined, 'digit', 'letter', 'wide'] as const;

/** What came before, times two, and one more where an edge has come since. */
function plainState(before: Kind | undefined, edge: number): number {
  const kind = before === 'spaceless' ? 'wide' : before === 'sign' ? undefined : before;
  return befores.indexOf(kind) * 2 + (edge & hardEdge);
}

/** By state and kind of the next character: the state behind it, times four, and the edge before it. */
const plainSteps = Uint8Array.from({ length: befores.length * 2 * 3 }, (_, at) => {
  const [state, kind] = [Math.floor(at / 3), at % 3];
  const before = state >> 1;
  if (kind === 0) return (before * 2 + hardEdge) * 4;
  const isOther = before !== 0 && before !== kind;
  const edge = isOther && befores[before] === 'wide' ? hardEdge : (state & hardEdge) | (isOther ? softEdge : 0);
  return kind * 2 * 4 + edge;
});

const wide = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Script=Bopomofo}\p{Script=Yi}]/u;
const spaceless =
  /[\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}\p{Script=Tibetan}\p{Script=Javanese}]/u;
const kinds = new Map<string, Kind>();

function kindOf(character: string): Kind {
  const known = kinds.get(character);
  if (known) return known;
  const kind = rareKind(character);
  // Bounded by what Unicode has; a text of nothing but new characters must not make it grow for ever.
  if (kinds.size < 16_384) kinds.set(character, kind);
  return kind;
}

function rareKind(character: string): Kind {
  if (/\p{N}/u.test(character)) return 'digit';
  if (!/\p{L}/u.test(character)) return 'sign';
  if (wide.test(character)) return 'wide';
  return spaceless.test(character) ? 'spaceless' : 'letter';
}

/** Do words in this script begin and end without a space? */
export function isSpaceless(character: string): boolean {
  const kind = kindOf(character);
  return kind === 'wide' || kind === 'spaceless';
}

/** Unified ideographs and syllables of Hangul: they have no other form. */
function isPlainWide(code: number): boolean {
  return (code >= 0x4e00 && code <= 0x9fff) || (code >= 0xac00 && code <= 0xd7a3);
}

/** First code points of letters in boxes, and of the invisible second alphabet, each with the letter that it begins with. */
const dressedUp: readonly (readonly [from: number, to: number, letter: number])[] = [
  [0x1f1e6, 0x1f1ff, 0x61],
  [0x1f150, 0x1f169, 0x61],
  [0x1f170, 0x1f189, 0x61],
  [0xe0030, 0xe0039, 0x30],
  [0xe0041, 0xe005a, 0x61],
  [0xe0061, 0xe007a, 0x61],
];

function shownLetter(code: number): string {
  const range = code < 0x1f150 ? undefined : dressedUp.find(([from, to]) => code >= from && code <= to);
  return String.fromCodePoint(range ? code - range[0] + range[2] : code);
}
