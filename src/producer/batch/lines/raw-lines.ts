/** A line of JSONL, or a record of a CSV, as bytes. Lines are counted from 1. */
export interface RawLine {
  readonly line: number;
  readonly offset: number;
  /** Bytes without what ends the line; 0 of one that is too long to be read again. */
  readonly length: number;
  /** Undefined: it is longer than it may be. */
  readonly content: Buffer | undefined;
}

/** A line is one input (256 KB) in JSON, which may double it, and its options. */
export const maxLineBytes = 1024 * 1024;

const lineFeed = 0x0a;
const carriageReturn = 0x0d;
const comma = 0x2c;
const quote = 0x22;

/** Finds where lines end. Sees all bytes of a file in their order, each once. */
interface Ends {
  /** The next line feed from `from` that ends a line, or -1. */
  next(chunk: Uint8Array, from: number): number;
}

/** How a file is divided: at each line feed, or as a CSV. */
export type Division = 'lines' | 'records';

/**
 * The lines or records of a file. Keeps at most one in memory; the last one need not have an end. A line feed between quotes ends
 * no record. A quote opens a field only at its beginning, and a closed field with something behind it counts as unquoted: a wrong
 * quote spoils the records up to the next line, not the file.
 */
export async function* rawLines(
  chunks: AsyncIterable<Uint8Array>,
  division: Division,
  maxBytes = maxLineBytes,
): AsyncGenerator<RawLine> {
  const taken = new Taken(maxBytes);
  const ends = endsOf(division);
  for await (const chunk of chunks) yield* linesOf(chunk, ends, taken);
  if (!taken.isEmpty) yield taken.take();
}

/** The lines or records that end within the first bytes of a file, and what is behind the last of them. */
export function* firstLines(head: Uint8Array, division: Division): Generator<RawLine> {
  const taken = new Taken(maxLineBytes);
  yield* linesOf(head, endsOf(division), taken);
  if (!taken.isEmpty) yield taken.take();
}

function endsOf(division: Division): Ends {
  return division === 'records' ? new RecordEnds() : { next: (chunk, from) => chunk.indexOf(lineFeed, from) };
}

function* linesOf(chunk: Uint8Array, ends: Ends, taken: Taken): Generator<RawLine> {
  let start = 0;
  for (let end = ends.next(chunk, 0); end >= 0; end = ends.next(chunk, start)) {
    taken.add(chunk.subarray(start, end));
    yield taken.take();
    start = end + 1;
  }
  taken.add(chunk.subarray(start));
}

/** The bytes of the line that is being read. */
class Taken {
  readonly #maxBytes: number;
  #parts: Uint8Array[] = [];
  #bytes = 0;
  #feeds = 0;
  #line = 1;
  #offset = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  get isEmpty(): boolean {
    return this.#bytes === 0;
  }

  add(part: Uint8Array): void {
    if (part.length === 0) return;
    this.#bytes += part.length;
    for (let at = part.indexOf(lineFeed); at >= 0; at = part.indexOf(lineFeed, at + 1)) this.#feeds += 1;
    if (this.#bytes <= this.#maxBytes) this.#parts.push(part);
    else this.#parts = [];
  }

  /** The line, and begins the next one behind its line feed. */
  take(): RawLine {
    const content = this.#bytes > this.#maxBytes ? undefined : withoutEnd(Buffer.concat(this.#parts));
    const raw = { line: this.#line, offset: this.#offset, length: content?.length ?? 0, content };
    this.#line += this.#feeds + 1;
    this.#offset += this.#bytes + 1;
    [this.#parts, this.#bytes, this.#feeds] = [[], 0, 0];
    return raw.offset === 0 ? withoutMark(raw) : raw;
  }
}

function withoutEnd(content: Buffer): Buffer {
  return content.at(-1) === carriageReturn ? content.subarray(0, -1) : content;
}

const byteOrderMark = Buffer.from('\uFEFF');

function withoutMark(raw: RawLine): RawLine {
  const { length } = byteOrderMark;
  if (!raw.content?.subarray(0, length).equals(byteOrderMark)) return raw;
  return { ...raw, offset: length, length: raw.length - length, content: raw.content.subarray(length) };
}

type Position = 'start' | 'unquoted' | 'quoted' | 'afterQuote';

/** Follows the quotes of a CSV from byte to byte, across the pieces in which it comes. */
class RecordEnds implements Ends {
  #at: Position = 'start';
  /** Bytes of the file that were seen. */
  #seen = 0;

  next(chunk: Uint8Array, from: number): number {
    for (let index = from; index < chunk.length; index++) {
      const byte = chunk[index] as number;
      const isMark = byteOrderMark[this.#seen++] === byte;
      if (isMark) continue;
      if (byte === lineFeed && this.#at !== 'quoted') {
        this.#at = 'start';
        return index;
      }
      this.#at = after(this.#at, byte);
    }
    return -1;
  }
}

function after(at: Position, byte: number): Position {
  if (at === 'quoted') return byte === quote ? 'afterQuote' : 'quoted';
  if (byte === comma) return 'start';
  if (byte === quote) return at === 'unquoted' ? 'unquoted' : 'quoted';
  // What ends a line belongs to no field.
  return byte === carriageReturn ? at : 'unquoted';
}
