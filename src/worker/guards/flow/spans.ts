import { Automaton, tableSize } from './automaton.ts';
import type { Span } from './span.ts';

/** The shortest piece that is looked for. */
export const minPiece = 8;

const maxChunk = 65_536;
/** Entries of one table of transitions. */
const maxTable = 4_194_304;

/**
 * Finds the pieces of at least {@link minPiece} units that texts share with this one. Exact, and linear in the text whatever
 * the two hold: where a window of that size may stand in the needle, its places there are compared one by one; a text that
 * takes too many of them for that is read by an automaton of all pieces of the needle.
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
    while (to - from > 4 * minPiece && tableSize(units.subarray(from, to)) > maxTable) to = from + ((to - from) >> 1);
    chunks.push(new Chunk(units.subarray(from, to), from));
    if (to === units.length) break;
    from = to - (minPiece - 1);
  }
  return chunks;
}

/** How often, for each unit of the two texts, units are compared before the automaton takes over. */
const maxCompared = 4;

class Chunk {
  readonly #units: Uint16Array;
  readonly #offset: number;
  readonly #windows: Int32Array;
  /** Bits: that of the slot of each window is set. */
  readonly #filter: Uint8Array;
  readonly #shift: number;
  #places: Places | undefined;
  #automaton: Automaton | undefined;

  constructor(units: Uint16Array, offset: number) {
    this.#units = units;
    this.#offset = offset;
    this.#windows = windowsOf(units);
    const bits = Math.max(8, Math.ceil(Math.log2(units.length * 32)));
    const shift = 32 - bits;
    const filter = new Uint8Array(2 ** (bits - 3));
    for (const window of this.#windows) {
      const slot = slotOf(window, shift);
      filter[slot >> 3] = (filter[slot >> 3] as number) | (1 << (slot & 7));
    }
    this.#shift = shift;
    this.#filter = filter;
  }

  spansIn(text: Uint16Array): Span[] {
    return (this.#byPlaces(text) ?? this.#byAutomaton(text)).map((span) => ({ ...span, end: this.#offset + span.end }));
  }

  /** Undefined: there is too much to compare. */
  #byPlaces(text: Uint16Array): Span[] | undefined {
    const spans: Span[] = [];
    const windows = windowsOf(text);
    const budget = { left: maxCompared * (text.length + this.#units.length) };
    for (let at = this.#nextIn(windows, 0); at < windows.length; at = this.#nextIn(windows, at + 1)) {
      this.#places ??= new Places(this.#units, this.#windows);
      const span = this.#places.longest(text, at, windows[at] as number, budget);
      if (budget.left < 0) return undefined;
      if (!span) continue;
      spans.push(span);
      // The next window that may be of another piece ends behind this one.
      at = span.to - minPiece;
    }
    return spans;
  }

  /** The next window that may stand in the needle. */
  #nextIn(windows: Int32Array, from: number): number {
    const [filter, shift] = [this.#filter, this.#shift];
    let at = from;
    for (; at < windows.length; at++) {
      const slot = slotOf(windows[at] as number, shift);
      if (((filter[slot >> 3] as number) & (1 << (slot & 7))) !== 0) break;
    }
    return at;
  }

  #byAutomaton(text: Uint16Array): Span[] {
    this.#automaton ??= new Automaton(this.#units);
    return this.#automaton.piecesIn(text, minPiece);
  }
}

/** The places of each window in some units. */
class Places {
  readonly #units: Uint16Array;
  readonly #shift: number;
  /** By slot its first place, by place the next one of the same slot; both from 1 on. */
  readonly #first: Int32Array;
  readonly #next: Int32Array;

  constructor(units: Uint16Array, windows: Int32Array) {
    const bits = Math.max(1, Math.ceil(Math.log2(units.length * 2)));
    this.#units = units;
    this.#shift = 32 - bits;
    this.#first = new Int32Array(2 ** bits);
    this.#next = new Int32Array(windows.length + 1);
    for (let place = windows.length; place > 0; place--) {
      const slot = slotOf(windows[place - 1] as number, this.#shift);
      this.#next[place] = this.#first[slot] as number;
      this.#first[slot] = place;
    }
  }

  /** The piece around a window of a text that begins first, and of those with the same beginning the longest. */
  longest(text: Uint16Array, from: number, window: number, budget: { left: number }): Span | undefined {
    const units = this.#units;
    let best: Span | undefined;
    for (
      let place = this.#first[slotOf(window, this.#shift)] as number;
      place > 0;
      place = this.#next[place] as number
    ) {
      const to = endOfSame(text, from, units, place - 1);
      budget.left -= 1 + to - from;
      if (to - from < minPiece) continue;
      const begin = beginOfSame(text, from, units, place - 1);
      budget.left -= from - begin;
      if (!best || begin < best.from || (begin === best.from && to > best.to))
        best = { from: begin, to, end: place - 1 + to - from };
      if (budget.left < 0) break;
    }
    return best;
  }
}

/** Behind the last unit that two texts share from these places on. */
function endOfSame(text: Uint16Array, from: number, other: Uint16Array, start: number): number {
  let to = from;
  for (let at = start; to < text.length && text[to] !== 0 && text[to] === other[at]; at++) to++;
  return to;
}

/** The first unit that two texts share up to these places. */
function beginOfSame(text: Uint16Array, to: number, other: Uint16Array, end: number): number {
  let from = to;
  for (let at = end; from > 0 && at > 0 && text[from - 1] !== 0 && text[from - 1] === other[at - 1]; at--) from--;
  return from;
}

const base = 0x01000193;
const scatter = 0x9e3779b1 | 0;
/** What a unit counts once it has left a window. */
const gone = Array.from({ length: minPiece }).reduce<number>((power) => Math.imul(power, base), 1);
const known = new WeakMap<Uint16Array, Int32Array>();

/** A number for each window of {@link minPiece} units: the same for the same units. Kept as long as these. */
function windowsOf(units: Uint16Array): Int32Array {
  const before = known.get(units);
  if (before) return before;
  const windows = new Int32Array(Math.max(0, units.length - minPiece + 1));
  let sum = 0;
  for (let at = 0; at < units.length; at++) {
    sum = (Math.imul(sum, base) + (units[at] as number)) | 0;
    if (at >= minPiece) sum = (sum - Math.imul(units[at - minPiece] as number, gone)) | 0;
    if (at + 1 >= minPiece) windows[at + 1 - minPiece] = sum;
  }
  known.set(units, windows);
  return windows;
}

function slotOf(window: number, shift: number): number {
  return Math.imul(window, scatter) >>> shift;
}
