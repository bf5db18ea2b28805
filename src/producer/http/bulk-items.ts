import { Tokenizer, TokenType } from '@streamparser/json';
import { RunError } from '../../shared/base/errors.ts';
import { maxBulk } from '../../shared/contract/run.ts';
import { maxLevels } from '../../shared/base/json.ts';

/** What one item of a list may take: as much as the body of a request that starts one run. */
export const maxItemBytes = 1024 * 1024;

/** The bytes of an item in a body. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

const newline = 0x0a;
const blanks: ReadonlySet<number> = new Set([0x20, 0x09, 0x0d]);

/**
 * Finds the items of a list while its bytes arrive, so that a list of too many is refused before it is kept: one item a line;
 * blank lines are none. Throws `validation` for one item too many.
 */
export class LineScanner {
  readonly #spans: Span[] = [];
  #at = 0;
  #start: number | undefined;

  write(chunk: Uint8Array): void {
    for (let from = 0; from < chunk.length;) {
      if (this.#start === undefined) from = this.#begin(chunk, from);
      const end = this.#start === undefined ? -1 : chunk.indexOf(newline, from);
      if (end === -1) break;
      this.#finish(this.#at + end);
      from = end + 1;
    }
    this.#at += chunk.length;
  }

  end(): readonly Span[] {
    if (this.#start !== undefined) this.#finish(this.#at);
    if (this.#spans.length === 0) throw new RunError('invalid_json', 'the body is empty');
    return this.#spans;
  }

  /** Skips blanks and empty lines. Answers where the next line's text begins, or the end of the chunk. */
  #begin(chunk: Uint8Array, from: number): number {
    let at = from;
    while (at < chunk.length && (chunk[at] === newline || blanks.has(chunk[at] as number))) at++;
    if (at === chunk.length) return at;
    refuseOneMore(this.#spans);
    this.#start = this.#at + at;
    return at;
  }

  #finish(end: number): void {
    this.#spans.push({ start: this.#start as number, end });
    this.#start = undefined;
  }
}

/**
 * The same with one item an element of a JSON array. Elements are only separated here; `enqueue-bulk` parses them later. Throws also
 * `invalid_json`, `too_deep`, and `payload_too_large` for an element over the limit: its end is not looked for.
 */
export class ArrayScanner {
  readonly #spans: Span[] = [];
  readonly #tokenizer = new Tokenizer({ stringBufferSize: 64 * 1024, numberBufferSize: 1_024 });
  #expected: 'array' | 'element or end' | 'element' | 'separator' | 'nothing' = 'array';
  #depth = 0;
  #start: number | undefined;
  #at = 0;

  constructor() {
    this.#tokenizer.onToken = ({ token, offset }) => this.#onToken(token, offset);
    this.#tokenizer.onError = (error) => {
      throw error;
    };
  }

  write(chunk: Uint8Array): void {
    if (this.#at === 0 && chunk[0] === byteOrderMark)
      throw new RunError('invalid_json', 'the body starts with a byte order mark, or is not JSON');
    this.#tokenize(() => this.#tokenizer.write(chunk));
    this.#at += chunk.length;
    this.#refuseLarge(this.#at);
  }

  end(): readonly Span[] {
    if (this.#at === 0) throw new RunError('invalid_json', 'the body is empty');
    // A number is a token only once something else follows it, or nothing does.
    this.#tokenize(() => this.#tokenizer.end());
    if (this.#expected !== 'nothing') throw new RunError('invalid_json', 'the body ends before its array does');
    return this.#spans;
  }

  #tokenize(work: () => void): void {
    try {
      work();
    } catch (error) {
      if (error instanceof RunError) throw error;
      throw new RunError('invalid_json', 'the body is not JSON', { cause: error });
    }
  }

  #onToken(token: TokenType, offset: number): void {
    const isOpening = opening.has(token);
    const isClosing = closing.has(token);
    if (this.#depth > 1) {
      if (isOpening && this.#depth > maxLevels)
        throw new RunError('too_deep', `an element is nested deeper than ${maxLevels} levels`);
      this.#depth += Number(isOpening) - Number(isClosing);
    } else if (this.#expected === 'array') {
      if (token !== TokenType.LEFT_BRACKET)
        throw new RunError('validation', 'the body must be an array, or one object a line');
      this.#depth = 1;
      this.#expected = 'element or end';
    } else if (this.#expected === 'separator' || (this.#expected === 'element or end' && isClosing)) {
      this.#separate(token, offset);
    } else {
      if (this.#expected === 'nothing' || isClosing || token === TokenType.COMMA || token === TokenType.COLON)
        throw malformed(offset);
      refuseOneMore(this.#spans);
      this.#start = offset;
      this.#expected = 'separator';
      if (isOpening) this.#depth += 1;
    }
  }

  #separate(token: TokenType, offset: number): void {
    if (token !== TokenType.COMMA && token !== TokenType.RIGHT_BRACKET) throw malformed(offset);
    this.#refuseLarge(offset);
    if (this.#start !== undefined) this.#spans.push({ start: this.#start, end: offset });
    this.#start = undefined;
    this.#expected = token === TokenType.COMMA ? 'element' : 'nothing';
  }

  #refuseLarge(end: number): void {
    if (end - (this.#start ?? end) <= maxItemBytes) return;
    throw new RunError('payload_too_large', `element ${this.#spans.length} of the array is over ${maxItemBytes} bytes`);
  }
}

const byteOrderMark = 0xef;
const opening: ReadonlySet<TokenType> = new Set([TokenType.LEFT_BRACE, TokenType.LEFT_BRACKET]);
const closing: ReadonlySet<TokenType> = new Set([TokenType.RIGHT_BRACE, TokenType.RIGHT_BRACKET]);

function malformed(offset: number): RunError {
  return new RunError('invalid_json', `the body is not JSON: unexpected character at byte ${offset}`);
}

function refuseOneMore({ length }: readonly Span[]): void {
  if (length >= maxBulk) throw new RunError('validation', `at most ${maxBulk} runs in one request`);
}
