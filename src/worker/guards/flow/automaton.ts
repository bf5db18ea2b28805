import type { Span } from './span.ts';

/** Entries of the table that an automaton of these units has. */
export function tableSize(units: Uint16Array): number {
  return 2 * units.length * lettersOf(units).length;
}

const isSeen = new Uint8Array(65_536);

/** Each unit once, in the order in which they come. */
function lettersOf(units: Uint16Array): readonly number[] {
  const letters: number[] = [];
  for (const unit of units) {
    if (isSeen[unit] === 1) continue;
    isSeen[unit] = 1;
    letters.push(unit);
  }
  for (const letter of letters) isSeen[letter] = 0;
  return letters;
}

/** The suffix automaton of some units: every path from state 0 spells a piece of them, and every piece is a path. */
export class Automaton {
  readonly #ids = new Uint16Array(65_536);
  readonly #width: number;
  readonly #next: Int32Array;
  readonly #link: Int32Array;
  readonly #length: Int32Array;
  readonly #end: Int32Array;
  #states = 1;
  #last = 0;

  constructor(units: Uint16Array) {
    const letters = lettersOf(units);
    for (const [at, letter] of letters.entries()) this.#ids[letter] = at + 1;
    this.#width = letters.length + 1;
    const most = 2 * units.length + 2;
    this.#next = new Int32Array(most * this.#width);
    this.#link = new Int32Array(most).fill(-1);
    this.#length = new Int32Array(most);
    this.#end = new Int32Array(most);
    for (const unit of units) this.#extend(this.#ids[unit] ?? 0);
  }

  /** The longest pieces of a text, of at least so many units, in order of their ends. A 0 is in none. */
  piecesIn(text: Uint16Array, least: number): Span[] {
    const pieces: Span[] = [];
    let state = 0;
    let length = 0;
    for (let at = 0; at <= text.length; at++) {
      let next = this.#step(state, text[at] ?? 0);
      if (next === 0 && length >= least) pieces.push({ from: at - length, to: at, end: this.#end[state] ?? 0 });
      while (next === 0 && state !== 0) {
        state = Math.max(0, this.#link[state] ?? 0);
        length = this.#lengthOf(state);
        next = this.#step(state, text[at] ?? 0);
      }
      state = next;
      length = next === 0 ? 0 : length + 1;
    }
    return pieces;
  }

  /** The state behind this unit, 0 where there is none: no path leads back to the first state. */
  #step(state: number, unit: number): number {
    const id = unit === 0 ? 0 : (this.#ids[unit] ?? 0);
    return id === 0 ? 0 : (this.#next[state * this.#width + id] ?? 0);
  }

  #lengthOf(state: number): number {
    return this.#length[state] ?? 0;
  }

  #extend(id: number): void {
    const [width, next, link, length] = [this.#width, this.#next, this.#link, this.#length];
    const added = this.#states++;
    length[added] = this.#lengthOf(this.#last) + 1;
    this.#end[added] = this.#lengthOf(added);
    let from = this.#last;
    while (from !== -1 && next[from * width + id] === 0) {
      next[from * width + id] = added;
      from = link[from] ?? -1;
    }
    if (from === -1) link[added] = 0;
    else {
      const old = next[from * width + id] ?? 0;
      link[added] = this.#lengthOf(old) === this.#lengthOf(from) + 1 ? old : this.#split(from, old, id);
    }
    this.#last = added;
  }

  #split(from: number, old: number, id: number): number {
    const [width, next, link] = [this.#width, this.#next, this.#link];
    const copy = this.#states++;
    this.#length[copy] = this.#lengthOf(from) + 1;
    this.#end[copy] = this.#end[old] ?? 0;
    next.copyWithin(copy * width, old * width, (old + 1) * width);
    link[copy] = link[old] ?? 0;
    link[old] = copy;
    for (let state = from; state !== -1 && next[state * width + id] === old; state = link[state] ?? -1) {
      next[state * width + id] = copy;
    }
    return copy;
  }
}
