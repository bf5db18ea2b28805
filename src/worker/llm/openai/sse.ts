const lineFeed = 10;
const carriageReturn = 13;
const byteOrderMark = Buffer.from([0xef, 0xbb, 0xbf]);
const dataField = Buffer.from('data:');
const space = 32;
const empty = Buffer.alloc(0);

interface SseLimits {
  /** Longest line, and longest payload of several lines, in bytes. */
  readonly maxLineBytes: number;
  /** Longest stream in bytes, comments and line ends included. */
  readonly maxBytes: number;
}

/** `line` and `stream` name the limit that was passed; nothing more comes out then. */
export type SseVerdict = 'ok' | 'line' | 'stream';

/**
 * Splits the bytes of a server-sent event stream into the payloads of its `data` fields. Lines end with LF or CRLF;
 * other fields and comments are skipped unread. Only whole lines are decoded, so a character may be split anywhere.
 */
export class SseSplitter {
  readonly #limits: SseLimits;
  readonly #onData: (payload: string) => void;
  /** The beginning of a line whose end has not come yet, piece by piece: joining at every chunk would be quadratic. */
  #pieces: Buffer[] = [];
  #pieceBytes = 0;
  #totalBytes = 0;
  #payload: string | undefined;
  #firstLine = true;
  #verdict: SseVerdict = 'ok';

  constructor(limits: SseLimits, onData: (payload: string) => void) {
    this.#limits = limits;
    this.#onData = onData;
  }

  push(bytes: Uint8Array): SseVerdict {
    if (this.#verdict !== 'ok') return this.#verdict;
    const chunk = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#totalBytes += chunk.length;
    if (this.#totalBytes > this.#limits.maxBytes) return this.#fail('stream');
    let start = 0;
    for (let end = chunk.indexOf(lineFeed); end !== -1; end = chunk.indexOf(lineFeed, start)) {
      if (this.#pieceBytes + end - start > this.#limits.maxLineBytes) return this.#fail('line');
      if (this.#pieceBytes === 0) this.#line(chunk, start, end);
      else this.#joinedLine(chunk.subarray(start, end));
      if (this.#verdict !== 'ok') return this.#verdict;
      start = end + 1;
    }
    if (start < chunk.length) {
      this.#pieceBytes += chunk.length - start;
      if (this.#pieceBytes > this.#limits.maxLineBytes) return this.#fail('line');
      // A copy, because the transport may reuse its buffer.
      this.#pieces.push(Buffer.from(chunk.subarray(start)));
    }
    return 'ok';
  }

  /** The stream has ended: gives out what its last lines had, also when they lack their line ends. */
  end(): void {
    if (this.#verdict !== 'ok') return;
    if (this.#pieceBytes > 0) this.#joinedLine(empty);
    this.#dispatch();
  }

  #joinedLine(rest: Buffer): void {
    const line = Buffer.concat([...this.#pieces, rest]);
    this.#pieces = [];
    this.#pieceBytes = 0;
    this.#line(line, 0, line.length);
  }

  #line(buffer: Buffer, lineStart: number, lineEnd: number): void {
    const start = this.#firstLine && hasPrefix(buffer, lineStart, lineEnd, byteOrderMark) ? lineStart + 3 : lineStart;
    this.#firstLine = false;
    const end = lineEnd > start && buffer[lineEnd - 1] === carriageReturn ? lineEnd - 1 : lineEnd;
    if (end === start) return this.#dispatch();
    if (!hasPrefix(buffer, start, end, dataField)) return;
    const from = start + dataField.length;
    const value = buffer.toString('utf8', buffer[from] === space && from < end ? from + 1 : from, end);
    if (this.#payload === undefined) this.#payload = value;
    else if (this.#payload.length + value.length > this.#limits.maxLineBytes) this.#fail('line');
    else this.#payload += `\n${value}`;
  }

  #dispatch(): void {
    const payload = this.#payload;
    if (payload === undefined) return;
    this.#payload = undefined;
    this.#onData(payload);
  }

  #fail(verdict: SseVerdict): SseVerdict {
    this.#verdict = verdict;
    this.#pieces = [];
    this.#payload = undefined;
    return verdict;
  }
}

function hasPrefix(buffer: Buffer, start: number, end: number, prefix: Buffer): boolean {
  if (end - start < prefix.length) return false;
  for (let i = 0; i < prefix.length; i++) if (buffer[start + i] !== prefix[i]) return false;
  return true;
}
