/** The shortest piece that is looked for. */
export const minPiece = 8;

/** A piece that two texts share. */
export interface Span {
  /** In the text that was searched: first unit, and the one behind the last. */
  readonly from: number;
  readonly to: number;
  /** Behind its last unit in the needle, where it first stands there. */
  readonly end: number;
}

const maxChunk = 65_536;
/** Entries of one table of transitions. */
const maxTable = 4_194_304;

/**
 * Finds the pieces of at least {@link minPiece} units that texts share with this one. Exact, and linear in the text whatever
 * the two hold: a filter of hashes sends only those places on where such a piece may begin, an automaton of all pieces of the
 * needle then measures how far it goes.
 */
export class Needle {
  readonly #chunks: readonly Chunk[];

  constructor(units: Uint16Array) {
    this.#chunks = chunksOf(units);
  }

  /** The longest pieces, in order of their ends for each part of the needle; they may overlap. */
  spansIn(text: Uint16Array): Span[] {
    return this.#chunks.flatMap((chunk) => chunk.spansIn(text));
  }
}

/** Parts that overlap by one piece, so that what a cut divides is still found as two pieces that touch. */
function chunksOf(units: Uint16Array): Chunk[] {
  const chunks: Chunk[] = [];
  let from = 0;
  while (from + minPiece <= units.length) {
    let to = Math.min(units.length, from + maxChunk);
    let letters = lettersOf(units, from, to);
    while (to - from > 4 * minPiece && 2 * (to - from) * letters.size > maxTable) {
      to = from + ((to - from) >> 1);
      letters = lettersOf(units, from, to);
    }
    chunks.push(new Chunk(units.subarray(from, to), from, letters));
    if (to === units.length) break;
    from = to - (minPiece - 1);
  }
  return chunks;
}

function lettersOf(units: Uint16Array, from: number, to: number): ReadonlySet<number> {
  return new Set(units.subarray(from, to));
}

const base = 0x01000193;
const scatter = 0x9e3779b1;
/** What a unit counts once it is the oldest of a window. */
const oldest = Array.from({ length: minPiece - 1 }).reduce<number>((power) => Math.imul(power, base), 1);

class Chunk {
  readonly #units: Uint16Array;
  readonly #offset: number;
  readonly #letters: ReadonlySet<number>;
  readonly #filter: Uint8Array;
  readonly #shift: number;
  #automaton: Automaton | undefined;

  constructor(units: Uint16Array, offset: number, letters: ReadonlySet<number>) {
    this.#units = units;
    this.#offset = offset;
    this.#letters = letters;
    const bits = Math.max(16, Math.ceil(Math.log2(units.length * 16)));
    this.#shift = 32 - bits;
    this.#filter = new Uint8Array(2 ** (bits - 3));
    let hash = 0;
    for (let at = 0; at < units.length; at++) {
      hash = rolled(hash, units, at);
      if (at + 1 >= minPiece) this.#mark(hash);
    }
  }

  spansIn(text: Uint16Array): Span[] {
    const spans: Span[] = [];
    const [filter, shift] = [this.#filter, this.#shift];
    let hash = 0;
    /** Where the window begins that `hash` is about, once it is whole. */
    let start = 0;
    for (let at = 0; at < text.length; at++) {
      const seen = at - start;
      const gone = seen < minPiece ? 0 : Math.imul(text[at - minPiece] as number, oldest);
      hash = (Math.imul(hash - gone, base) + (text[at] as number)) | 0;
      const slot = Math.imul(hash, scatter) >>> shift;
      if (seen + 1 < minPiece || ((filter[slot >> 3] as number) & (1 << (slot & 7))) === 0) continue;
      const last = this.#measure(text, at - (minPiece - 1), spans);
      // The next window that nothing is known about ends behind what has been measured.
      start = Math.max(at, last) - (minPiece - 2);
      at = start - 1;
      hash = 0;
    }
    return spans;
  }

  /** Adds the longest pieces from here on; answers with the last unit that was looked at. */
  #measure(text: Uint16Array, from: number, spans: Span[]): number {
    this.#automaton ??= new Automaton(this.#units, this.#letters);
    const automaton = this.#automaton;
    let state = 0;
    let length = 0;
    let at = from;
    const keep = () => {
      if (length >= minPiece) spans.push({ from: at - length, to: at, end: this.#offset + automaton.endOf(state) });
    };
    for (; at < text.length; at++) {
      const unit = text[at] ?? 0;
      if (unit === 0) break;
      let next = automaton.step(state, unit);
      if (next === 0) {
        keep();
        while (next === 0 && state !== 0) {
          state = automaton.linkOf(state);
          length = automaton.lengthOf(state);
          next = automaton.step(state, unit);
        }
      }
      state = next;
      length = next === 0 ? 0 : length + 1;
      if (length < minPiece && at >= from + minPiece - 1) return at;
    }
    keep();
    return at;
  }

  #mark(hash: number): void {
    const slot = Math.imul(hash, scatter) >>> this.#shift;
    this.#filter[slot >> 3] = (this.#filter[slot >> 3] ?? 0) | (1 << (slot & 7));
  }
}

/** The hash of the window that ends at a unit, from that of the window before it. */
function rolled(hash: number, units: Uint16Array, at: number): number {
  const gone = at >= minPiece ? Math.imul(units[at - minPiece] ?? 0, oldest) : 0;
  return (Math.imul(hash - gone, base) + (units[at] ?? 0)) | 0;
}

/** The suffix automaton of some units: every path from state 0 spells a piece of them, and every piece is a path. */
class Automaton {
  readonly #ids = new Uint16Array(65_536);
  readonly #width: number;
  readonly #next: Int32Array;
  readonly #link: Int32Array;
  readonly #length: Int32Array;
  readonly #end: Int32Array;
  #states = 1;
  #last = 0;

  constructor(units: Uint16Array, letters: ReadonlySet<number>) {
    let id = 0;
    for (const letter of letters) this.#ids[letter] = ++id;
    this.#width = id + 1;
    const most = 2 * units.length + 2;
    this.#next = new Int32Array(most * this.#width);
    this.#link = new Int32Array(most).fill(-1);
    this.#length = new Int32Array(most);
    this.#end = new Int32Array(most);
    for (const unit of units) this.#extend(this.#ids[unit] ?? 0);
  }

  /** The state behind this unit, 0 where there is none: no path leads back to the first state. */
  step(state: number, unit: number): number {
    const id = this.#ids[unit] ?? 0;
    return id === 0 ? 0 : (this.#next[state * this.#width + id] ?? 0);
  }

  linkOf(state: number): number {
    return Math.max(0, this.#link[state] ?? 0);
  }

  lengthOf(state: number): number {
    return this.#length[state] ?? 0;
  }

  endOf(state: number): number {
    return this.#end[state] ?? 0;
  }

  #extend(id: number): void {
    const [width, next, link, length] = [this.#width, this.#next, this.#link, this.#length];
    const added = this.#states++;
    length[added] = this.lengthOf(this.#last) + 1;
    this.#end[added] = this.lengthOf(added);
    let from = this.#last;
    while (from !== -1 && next[from * width + id] === 0) {
      next[from * width + id] = added;
      from = link[from] ?? -1;
    }
    if (from === -1) link[added] = 0;
    else {
      const old = next[from * width + id] ?? 0;
      link[added] = this.lengthOf(old) === this.lengthOf(from) + 1 ? old : this.#split(from, old, id);
    }
    this.#last = added;
  }

  #split(from: number, old: number, id: number): number {
    const [width, next, link] = [this.#width, this.#next, this.#link];
    const copy = this.#states++;
    this.#length[copy] = this.lengthOf(from) + 1;
    this.#end[copy] = this.endOf(old);
    next.copyWithin(copy * width, old * width, (old + 1) * width);
    link[copy] = link[old] ?? 0;
    link[old] = copy;
    for (let state = from; state !== -1 && next[state * width + id] === old; state = link[state] ?? -1) {
      next[state * width + id] = copy;
    }
    return copy;
  }
}
